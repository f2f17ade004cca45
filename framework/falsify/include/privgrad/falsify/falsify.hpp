// The neighbouring-run test, which tries to refute a plan by two runs on neighbouring data.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// A difference between two runs that the noise does not cover.
struct Difference {
  std::string what;                   ///< "batch", "release", "charges", ...: see falsify().
  std::optional<std::uint64_t> step;  ///< Nothing if the difference concerns the whole run.
  std::string neighbour;              ///< How the neighbour differs: "the row removed".
  std::string detail;                 ///< The expected and the found value; private.
};

/// The differences found, and the extent of the comparison.
struct Falsified {
  /// If empty, the plan is not refuted, but is not proved either.
  std::vector<Difference> differences;
  /// Parts that the comparison omits, each with the reason.
  std::vector<std::string> not_compared;
  std::vector<std::string> neighbours;  ///< The neighbours that were tried.
  std::uint64_t steps = 0;              ///< Steps compared, with each neighbour.
  /// The number of these steps whose batch contains the differing row.
  std::uint64_t participations = 0;
  std::uint64_t coordinates = 0;  ///< The number of released values that were recomputed.
};

struct FalsifyOptions {
  /// The most steps of the plan that are compared, > 0; with clients of fed_avg, rounds are
  /// compared until a client has made this many local steps.
  std::uint64_t steps = 16;
  std::uint64_t seed = 1;  ///< The first seed to try; see falsify().
  int threads = 2;         ///< Threads of the repeated run, which must have the same bits; > 0.
};

/// Tries to refute a plan: runs its first steps with the same keys on two data sets that differ in
/// one row (if clients are protected as a whole, in the rows of one client). Compares every value
/// from the private data to the release, and everything after the release, with its allowed value.
///
/// Nothing here is statistical. The second run is led through the first run's releases: it
/// continues with these instead of its own (ReleaseWitness), as in adaptive composition. Then only
/// the differing row's contribution to the sums of its steps may differ; everything that follows
/// from releases must be the same. With fixed keys, a release is a function of the data,
///
///     release_t = round((sum of the cells of the rows in the batch + noise of step t)) / divisor,
///
/// or, with recipes, a function of the sums and noise of all steps so far. Each part can be
/// recomputed independently: the sampler draws the batch from the number of rows, the program
/// computes a row's cells from that row only, and the noise follows from its address. The
/// comparison covers
///
/// - "transforms": a transformed row, if by the plan it depends only on the row itself;
/// - "statistic": that the releases before the first step follow from the rows' own contributions,
///   the divisor and the paid noise;
/// - "batch": the drawn rows. The differing row is the last row, so the other rows keep their
///   numbers. A sampler whose draws for the other rows depend on the number of rows is reported
///   here, even if its law allows that, because the two runs' draws cannot be matched;
/// - "contribution": that a row's cells are no longer than the bound, in integers;
/// - "release": that the released numbers follow, bit for bit, from the rows' own cells, the plan's
///   divisor and the paid noise; this includes releases that steer adaptive noise, and the local
///   steps of clients. The tolerance is a thousandth of the clip norm if the plan lists
///   `floating_point`, and a few hundredths of the noise if recipes have fractions;
/// - "parameters": the parameters at the beginning of each step;
/// - "noise", "clip norm": the stated standard deviation, and the clip norm in use;
/// - "charges", "status": the ledgers' charges, the steps made, and how the run ends;
/// - "repeat": that the same data gives the same bits with a different number of threads;
/// - "key": that batches depend on the key if they are charged as drawn at random;
/// - "record": the files of the two runs, one by one (differing_records()).
///
/// Neighbours: the last row is replaced by zeros (and a different class), by a copy of the row
/// before it, by numbers so large that gradients overflow, or by subnormal numbers. If features are
/// tokens, the last token of the vocabulary at every place, and empty places, take the place of
/// subnormal numbers. Under add_or_remove_one the row is also removed. A replaced row tests all
/// three adjacencies: the other rows' contributions must not change, and the row's own contribution
/// must be within the bound.
///
/// Tries seeds from options.seed upwards until the differing row is in a batch of the compared
/// steps.
///
/// The findings quote private values. Nothing is released, and no account is charged.
/// \throws ConfigError for options outside their range; any error that a plugin throws on the
///   original data.
Falsified falsify(const Plan& plan, const FalsifyOptions& options);

nlohmann::json to_json(const Falsified& result);

}  // namespace privgrad::core
