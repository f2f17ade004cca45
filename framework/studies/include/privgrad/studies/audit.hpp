// Privacy audits: attack a plan's releases and derive a lower bound on epsilon from the guesses.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/plan/plan.hpp"
#include "privgrad/statistics/audit_statistics.hpp"
#include "privgrad/statistics/sampled_trade_off.hpp"
#include "privgrad/trust/random_key.hpp"

/// An audit measures how well an adversary who sees every release can guess which rows were in the
/// data, and derives an epsilon from the guesses. A proof bounds epsilon from above, an audit from
/// below; if the two contradict each other, the proof does not describe the code that runs.
///
/// Canaries replace rows of the data. Each has a gradient longer than any clip norm, in a
/// coordinate of its own: it contributes a whole clip norm to each of its steps, and nothing else
/// contributes to that coordinate. A fair coin decides about each canary; afterwards the coins are
/// guessed from the releases and from public facts: the sampler's distribution, or the order itself
/// if it is public. Everything from the sampler to the ledger is the run's own code.
///
/// The coin of a canary chooses between two neighbours under the plan's adjacency, so that the
/// theorems on guesses apply to it:
/// - add_or_remove_one: the row is present, or absent (and later rows move up);
/// - zero_out: its gradient is present, or zero;
/// - replace_one: its gradient is present, or the opposite gradient, as if another example had
///   replaced it. No two contributions are further apart.
namespace privgrad::core {

enum class AuditKind {
  one_run = 1,  ///< Many canaries, one run.
  /// One canary, many runs, two fixed neighbours. Several rows may be tried as the canary.
  repeated,
};

/// The neighbouring data sets that an audit compares.
enum class AuditNeighbours {
  canary = 1,  ///< A canary is present or absent; the other rows are arbitrary.
  /// Rows whose sum in single precision changes by many clip norms when one row is added: 2^k + 1
  /// contributions of a whole clip norm, followed by many contributions just under half a unit in
  /// the last place of such a sum.
  rounding,
  /// Rows of which only one has a gradient, in all coordinates. Without this row, a release is only
  /// noise, and shows near 0 whether noise is rounded before it is added (Mironov 2012).
  lattice,
};

/// The rows besides the canaries.
enum class AuditRows {
  of_the_data = 1,  ///< The manifest's rows, which are private.
  drawn,            ///< Drawn from a public distribution (drawn_rows.hpp): no data is read.
};

struct AuditOptions {
  AuditKind kind = AuditKind::one_run;
  /// Only one_run, with the loss next_token: canaries are rows of random tokens, and the adversary
  /// sees only the model after the last step (token_canaries.hpp).
  bool exposure = false;
  AuditRows rows = AuditRows::of_the_data;
  /// Values other than `canary` require repeated runs; such audits make all rows themselves, and
  /// use only the first step.
  AuditNeighbours neighbours = AuditNeighbours::canary;
  /// one_run: the number of canaries; 0: as many as there are examples, at most 1000.
  /// repeated: the number of rows, spread evenly from first to last, that are tried as the canary;
  /// 0 or 1: one row, in the middle. If several are tried, the first two thirds of the runs choose
  /// one row and the statistic, and guesses are made for the last third.
  std::uint64_t canaries = 0;
  std::uint64_t runs = 1000;  ///< For `repeated`.
  double confidence = 0.99;   ///< In (0, 1).
  /// The key of the coins, the noise and the drawn rows; if absent: the manifest's seed, or the
  /// operating system's generator.
  std::optional<RandomKey> key = {};
  int threads = 1;
  std::function<void(std::uint64_t run, std::uint64_t runs)> on_run = {};  ///< May be empty.
  /// Ends the audit with an error once it is true; may be null.
  const std::atomic<bool>* stop = nullptr;
};

/// A lower bound by one method.
struct AuditBound {
  std::string method;  ///< "one_run", "one_run_f_dp", "one_run_gaussian", "repeated", ...
  /// Whether the bound is valid only for Gaussian releases, with noise of any size.
  bool assumes_gaussian = false;
  /// Whether the bound is valid only for Gaussian releases sampled with the charged probabilities.
  bool assumes_sampling = false;
  Guesses guesses;
  double epsilon = 0.0;  ///< At the plan's delta; 0 if nothing was found.
  double mu = 0.0;       ///< For methods that assume Gaussian releases without sampling.
  /// For methods that assume sampled Gaussian releases: a lower bound on the factor by which the
  /// charged noise must have been divided.
  double factor = 0.0;
};

/// The trade-offs of the charged event, if it consists of at most 64 different Gaussian releases,
/// some of which are Poisson sampled; otherwise nothing.
std::optional<SampledFamily> sampled_family(const Event& charged, Adjacency adjacency);

/// The bound that a method derives from guesses.
/// \param confidence  in (0, 1).
/// \param family  the family for the methods that assume sampled releases.
/// \throws ConfigError for an unknown method, or a method that this family does not support.
AuditBound bound_by(const std::string& method, const Guesses& guesses, double delta,
                    double confidence, const std::optional<SampledFamily>& family);

/// How well a model memorises canaries of random tokens. Carlini et al. 2019.
struct Exposure {
  /// The mean, over the canaries that were trained on, of log2((references + 1) / rank), in bits,
  /// where the canary's loss is ranked among the losses of rows that were not trained on.
  double mean_bits = 0.0;
  /// The largest expected `mean_bits` that the proved epsilon allows.
  double most_expected_bits = 0.0;
  std::uint64_t trained = 0, references = 0;

  double most_bits() const;  ///< The exposure of a canary that ranks before all references.
};

struct AuditResult {
  /// The first bound is the audit's result. Its method was fixed before the coins were flipped, so
  /// no correction is needed. The other bounds are for comparison; each is valid by itself at the
  /// confidence.
  std::vector<AuditBound> bounds;
  Adjacency adjacency = Adjacency::add_or_remove_one;
  double epsilon_upper = 0.0;  ///< From the plan's accountant; infinite without noise.
  double delta = 0.0;
  double confidence = 0.0;
  std::uint64_t canaries = 0, runs = 0, steps = 0;
  std::optional<Exposure> exposure = {};
  double seconds = 0.0;

  const AuditBound& bound() const { return bounds.front(); }
  /// Whether the audit shows, at its confidence, that the code is less private than was proved.
  bool contradicts() const { return bound().epsilon > epsilon_upper; }
};

nlohmann::json to_json(const AuditResult& result);

/// Why a plan cannot be audited; nothing if it can. Excluded are federated runs, augmentation,
/// balanced class weights, and aggregators of gradient differences, in which canaries cancel.
std::optional<std::string> refuses_audit(const Plan& plan);

/// Trains on the manifest's own rows, except for rows that canaries replace, and keeps nothing: the
/// models are discarded, the ledgers are in a temporary directory that is deleted, and no account
/// is charged, because nothing is released. The result depends on the coins, on the noise and, like
/// the runs' releases, on the private rows: publishing it costs these rows as much as all runs that
/// were made. With drawn rows there are no private rows, and the plan may have been made from
/// recorded facts.
/// \throws ConfigError for invalid options, and if refuses_audit() has a reason; PolicyError if a
///   policy protects the rows; Error if stopped.
AuditResult audit(const Plan& plan, const AuditOptions& options);

}  // namespace privgrad::core
