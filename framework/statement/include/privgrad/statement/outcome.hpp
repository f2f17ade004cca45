// The outcome of a run: how it ended, what was paid for, and which epsilon its statement claims.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "privgrad/data/data_commitment.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/released_counts.hpp"

namespace privgrad::core {

/// How a run ended; `stopped_early`: because of its releases; `untrained`: no client's model ever
/// arrived, so that the model is the one before the first round; `unfinished`: it has not ended.
enum class RunStatus {
  completed = 1,
  budget_exhausted,
  stopped_early,
  interrupted,
  diverged,
  untrained,
  unfinished
};

std::string_view to_text(RunStatus status);

/// Whether a run that ended so is accounted for with all steps that the budget pays for, however
/// many it made: what it released may have decided which step was its last. What such a run shows
/// follows from the releases of all those steps, so that their cost bounds its own; the cost of the
/// steps that it made, a number chosen by looking at them, bounds nothing.
bool is_accounted_in_full(const Plan& plan, RunStatus status);

/// The numbers of steps that were paid for.
struct ChargedSteps {
  std::uint64_t charged = 0;  ///< At least those that were made, unless noise is off.
  /// The steps that epsilon covers. More than `charged` where releases decided when the run ended:
  /// then all that the budget pays for.
  std::uint64_t accounted = 0;
  /// The number of releases beside the steps that were paid for, in a run whose accounted steps may
  /// be fewer than the budget pays for. Nothing: all that are planned.
  std::optional<std::uint64_t> beside = std::nullopt;
};

/// The record of noise that adapts.
struct NoiseRecord {
  std::vector<double> noise_multiplier;    ///< One per step that was paid for.
  std::vector<Charge> steps, checks;       ///< Those that were paid for.
  std::vector<std::uint64_t> measured_at;  ///< Steps made before each measurement.
  std::vector<double> measured;            ///< The values that the schedule saw.
  double spent_epsilon = 0.0;              ///< The ledger's total; no guarantee.
};

/// The result of running a plan. Statements read both; the plan stays as it was.
struct Outcome {
  RunStatus status = RunStatus::unfinished;
  std::uint64_t steps = 0;  ///< Number of steps made.
  ChargedSteps paid;
  /// The cost of the accounted steps; infinite without noise. If the noise adapts, the budget: the
  /// spending within it is no guarantee.
  PrivacyAnswer epsilon;
  std::optional<NoiseRecord> noise;  ///< Set if the noise adapts and the run has ended.
  /// The client of a finished federated run whose charges are stated, if it is not the one that was
  /// planned to cost most.
  std::optional<std::size_t> client;
  DataCommitment data;  ///< From the ledgers' first lines; empty without noise.
  /// When the run began, as "2026-05-17T12:00:00Z": before it read an example. From the ledgers'
  /// first lines; "" if they do not say it.
  std::string date = {};
  ReleasedCounts counts = {};  ///< Set once the run has ended; empty where none are planned.

  /// The plan's numbers, with the charges that were made in place of the planned ones: those of the
  /// stated client, and with the noise that was chosen.
  PlanNumbers stated(const Plan& plan) const;

  /// The event that `epsilon` is the cost of where the lines of the run's only ledger do not add up
  /// to it: the plan's, of a run that is accounted for in full or whose noise adapts. Nothing: these
  /// lines are the event; or each client has a ledger, and the run no event of its own.
  std::optional<Event> accounted_event(const Plan& plan) const;
};

/// The most that a plan can cost: the outcome of a run that is cut off.
Outcome outcome_of_all(const Plan& plan);

}  // namespace privgrad::core
