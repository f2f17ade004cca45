// The neighbouring-run test: tries to refute a plan by two runs on data that differ in one row.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// Something that differs between two runs, and that no noise covers.
struct Difference {
  std::string what;                   ///< "batch", "release", "charges", ...: see falsify().
  std::optional<std::uint64_t> step;  ///< Nothing: the run as a whole.
  std::string neighbour;              ///< How the neighbour differs: "the row removed".
  std::string detail;                 ///< The expected and the found value; private.
};

/// The differences that were found, and the extent of the comparison.
struct Falsified {
  std::vector<Difference> differences;    ///< None: nothing is refuted. That is no proof.
  std::vector<std::string> not_compared;  ///< Parts that the comparison leaves out, and why.
  std::vector<std::string> neighbours;    ///< The neighbours that were tried.
  std::uint64_t steps = 0;                ///< Steps compared, with each neighbour.
  std::uint64_t participations = 0;       ///< Those whose batch has the row.
  std::uint64_t coordinates = 0;          ///< Released values that were made anew.
};

struct FalsifyOptions {
  /// The most steps of the plan that are compared, > 0; with clients, the rounds up to so many
  /// local steps.
  std::uint64_t steps = 16;
  std::uint64_t seed = 1;  ///< The first one tried; see falsify().
  int threads = 2;         ///< Threads of the repeated run, which must have the same bits; > 0.
};

/// Tries to refute a plan: runs its first steps with the same keys on two data sets that differ in
/// one row (where clients are protected as a whole, in the rows of one client), and compares every
/// value on the way from private to released, and everything after it, with the value that it may
/// have.
///
/// Nothing here is statistical. The second run is led through the releases of the first: it goes on
/// with them in place of its own (ReleaseWitness), as in adaptive composition. Then only one row's
/// contribution to the sums of the steps that it takes part in may differ; everything that follows
/// from releases is the same. With the keys fixed, a release is a function of the data,
///
///     release_t = round((sum of the cells of the rows in the batch + noise of step t)) / divisor,
///
/// or a recipe's result from the sums and noise of all steps so far, and each of its parts can be
/// made again apart from the others: the batch by the sampler for the number of rows, the cells of
/// a row by the program for that row alone, the noise by its address. Compared are
///
/// - "transforms": the transformed row, wherever the plan says that it follows from that row alone;
/// - "statistic": that the releases before the first step are those made from the rows' own
///   contributions, the divisor and the noise that was paid for;
/// - "batch": which rows are drawn. The row that differs is the last one, so that the numbers of
///   the others stay; a sampler whose draws for them depend on the number of rows is named here
///   even where its law would allow that, since nobody can then say which draws belong together;
/// - "contribution": that a row's cells are no longer than the bound, in integers;
/// - "release": that the released numbers are, bit for bit, those made from the rows' own cells,
///   the plan's divisor and the noise that was paid for; beside steps, the releases that adaptive
///   noise and the local steps of clients follow. Where the plan lists `floating_point`, up to a
///   thousandth of the clip norm; where recipes have fractions, up to a few hundredths of the
///   noise;
/// - "parameters": the parameters that each step begins with;
/// - "noise", "clip norm": the stated standard deviation, and the clip norm in use;
/// - "charges", "status": the ledgers' charges, which steps are made, and how the run ends;
/// - "repeat": that the same data give the same bits, on another number of threads;
/// - "key": that a batch which is charged as drawn at random depends on the key;
/// - "record": the files that the run leaves, one by one (differing_records()).
///
/// Neighbours: the last row of zeros (and of another class), a copy of the row before, of numbers
/// so large that gradients overflow, so small that they are subnormal; under add_or_remove_one also
/// removed. A row that is replaced serves for all three adjacencies: it shows that the other rows'
/// part stays, and that the row's own part is within the bound.
///
/// Seeds are tried from options.seed on until the row is in a batch of the compared steps.
///
/// The findings quote private values. Nothing is released, and no account is charged.
/// \throws ConfigError for options outside their range; whatever a plugin throws on the data as
///   they are.
Falsified falsify(const Plan& plan, const FalsifyOptions& options);

nlohmann::json to_json(const Falsified& result);

}  // namespace privgrad::core
