// Privacy audits: attack a plan's releases and derive a lower bound on epsilon from the guesses.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/plan/plan.hpp"
#include "privgrad/statistics/audit_statistics.hpp"
#include "privgrad/statistics/sampled_trade_off.hpp"
#include "privgrad/trust/random_key.hpp"

/// An audit measures how well an adversary who sees every release can tell who was in the data, and
/// derives an epsilon from that. A proof bounds epsilon from above, an audit from below; where the
/// two contradict each other, the proof is about something other than the code that runs.
///
/// Canaries stand in for rows of the data. Each has a gradient in a coordinate of its own, longer
/// than any clip norm, so that it contributes a whole clip norm to each step that it is in, and
/// nothing else contributes there. A fair coin decides about each; afterwards the coins are guessed
/// from the releases and from public facts: the law of the sampler, or the order itself, where that
/// is public. Everything from the sampler to the ledger is the run's own code.
///
/// The coin of a canary decides between neighbours under the plan's adjacency, so that the theorems
/// on guesses apply to it:
/// - add_or_remove_one: the row is there, or is not (and others move up);
/// - zero_out: its gradient is there, or is zero;
/// - replace_one: its gradient, or the opposite one, of another example in the same place. The two
///   are as far apart as two contributions can be.
namespace privgrad::core {

/// The ways to audit.
enum class AuditKind {
  one_run = 1,  ///< Many canaries, one run.
  repeated,     ///< One canary, many runs: two fixed neighbours. Or one of several places.
};

/// The two neighbours of repeated runs.
enum class AuditNeighbours {
  canary = 1,  ///< A canary is there, or is not, beside any rows.
  /// Rows of which a sum in single precision moves by many clip norms for one more of them: after
  /// 2^k + 1 contributions of a whole clip norm, many that are just under half a unit in the last
  /// place of such a sum.
  rounding,
  /// Rows of which one alone has a gradient, in all coordinates: noise that was rounded before it
  /// was added shows its steps in released numbers near 0 where that row is not there (Mironov 2012).
  lattice,
};

/// Which rows there are beside the canaries.
enum class AuditRows {
  of_the_data = 1,  ///< The manifest's, which are private.
  drawn,            ///< By a public law (drawn_rows.hpp): nothing is read, nobody's data is used.
};

struct AuditOptions {
  AuditKind kind = AuditKind::one_run;
  AuditRows rows = AuditRows::of_the_data;
  /// All but `canary` are for repeated runs, make all rows themselves, and look at the first step
  /// alone.
  AuditNeighbours neighbours = AuditNeighbours::canary;
  /// one_run: the number of canaries; 0: as many as there are examples, at most 1000. repeated:
  /// places for the canary, from the first row to the last; above 1, the first two thirds of the
  /// runs choose one of them, and the statistic, and the last third is guessed (0: one place, in
  /// the middle).
  std::uint64_t canaries = 0;
  std::uint64_t runs = 1000;  ///< For `repeated`.
  double confidence = 0.99;   ///< In (0, 1).
  /// The key of the coins, the noise and the drawn rows; nothing: the manifest's seed, or the
  /// operating system.
  std::optional<RandomKey> key = {};
  int threads = 1;
  std::function<void(std::uint64_t run, std::uint64_t runs)> on_run = {};  ///< May be empty.
  const std::atomic<bool>* stop = nullptr;  ///< Once true, the audit ends by an error.
};

/// A lower bound by one method.
struct AuditBound {
  std::string method;  ///< "one_run", "one_run_f_dp", "one_run_gaussian", "repeated", ...
  /// Whether it holds for Gaussian releases alone (with any noise), or for releases of any law.
  bool assumes_gaussian = false;
  /// Whether these Gaussian releases are sampled, by the probabilities that were charged for.
  bool assumes_sampling = false;
  Guesses guesses;
  double epsilon = 0.0;  ///< At the plan's delta; 0 where nothing was found.
  double mu = 0.0;       ///< For methods that assume Gaussian releases without sampling.
  /// For methods that assume sampled ones: the least factor that the noise must have been divided
  /// by.
  double factor = 0.0;
};

/// The trade-offs of the charged event, if it consists of Gaussian releases, at most 64 different
/// ones, some of them Poisson sampled; else nothing.
std::optional<SampledFamily> sampled_family(const Event& charged, Adjacency adjacency);

/// The bound that guesses give by a method.
/// \param confidence  in (0, 1).
/// \param family  for the methods that assume sampled releases.
/// \throws ConfigError for an unknown method, or one that this family lacks.
AuditBound bound_by(const std::string& method, const Guesses& guesses, double delta,
                    double confidence, const std::optional<SampledFamily>& family);

struct AuditResult {
  /// The first is the audit's. Its method was fixed before the coins were thrown, so no correction
  /// is due. The others are for comparison: each holds at the confidence by itself.
  std::vector<AuditBound> bounds;
  Adjacency adjacency = Adjacency::add_or_remove_one;
  double epsilon_upper = 0.0;  ///< From the plan's accountant; infinite without noise.
  double delta = 0.0;
  double confidence = 0.0;
  std::uint64_t canaries = 0, runs = 0, steps = 0;
  double seconds = 0.0;

  const AuditBound& bound() const { return bounds.front(); }
  /// Whether the code is less private than was proved, at the confidence.
  bool contradicts() const { return bound().epsilon > epsilon_upper; }
};

nlohmann::json to_json(const AuditResult& result);

/// Why a plan cannot be audited; nothing if it can: federated runs, augmentation, and aggregators
/// that use differences of gradients, in which canaries whose gradients never change cancel.
std::optional<std::string> refuses_audit(const Plan& plan);

/// Trains on the manifest's own rows, except those that canaries stand in for, and keeps nothing:
/// the models are thrown away, the ledgers are in a temporary directory that is deleted, and no
/// account is charged, as nothing is released. The result depends on the coins of the canaries and
/// on noise, and on no more of the private rows than a release of the run does: if it is published,
/// the rows have been used by as many runs as were made. With drawn rows there are no private ones,
/// and the plan may be one that was made from recorded facts.
/// \throws ConfigError for numbers out of range and plans that refuses_audit(); as run().
AuditResult audit(const Plan& plan, const AuditOptions& options);

}  // namespace privgrad::core
