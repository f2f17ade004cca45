// The outcome of a run: its status, the steps that it paid for, and the epsilon of its statement.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "privgrad/data/data_commitment.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/released_counts.hpp"

namespace privgrad::core {

/// How a run ended. `stopped_early`: its releases ended it; `untrained`: no client's model ever
/// arrived, so the model is still the initial model; `unfinished`: it has not ended.
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

/// Whether the epsilon of a run with this status covers all steps that the budget pays for, even if
/// the run made fewer, because releases may have decided which step was the last. Everything that
/// such a run shows follows from the releases of all steps that the budget pays for, so their cost
/// bounds the run's cost. The cost of only the steps made is not a bound, because their number was
/// chosen by looking at the releases.
bool is_accounted_in_full(const PlanNumbers& plan, RunStatus status);

/// The numbers of steps that were paid for.
struct ChargedSteps {
  /// The paid steps: at least the number of steps made, unless noise is off.
  std::uint64_t charged = 0;
  /// The steps that epsilon covers: more than `charged` if releases decided when the run ended,
  /// because epsilon then covers all steps that the budget pays for.
  std::uint64_t accounted = 0;
  /// The number of paid releases besides the steps, in a run that may account for fewer steps than
  /// the budget pays for. If absent: all planned releases.
  std::optional<std::uint64_t> beside = std::nullopt;
};

/// The choices and measurements of adaptive noise.
struct NoiseRecord {
  std::vector<double> noise_multiplier;    ///< One per paid step.
  std::vector<Charge> steps, checks;       ///< The charges that were paid.
  std::vector<std::uint64_t> measured_at;  ///< Steps made before each measurement.
  std::vector<double> measured;            ///< The values that the schedule received.
  double spent_epsilon = 0.0;              ///< The ledger's total; not a guarantee.
};

/// The result of running a plan. Statements read it together with the plan, which stays unchanged.
struct Outcome {
  RunStatus status = RunStatus::unfinished;
  std::uint64_t steps = 0;  ///< Number of steps made.
  ChargedSteps paid;
  /// The cost of the accounted steps; infinite without noise. With adaptive noise it is the budget,
  /// because the amount spent within the budget is not a guarantee.
  PrivacyAnswer epsilon;
  std::optional<NoiseRecord> noise;  ///< Set once a run with adaptive noise has ended.
  /// The client whose charges a finished federated run states. If absent: the client that was
  /// planned to cost most.
  std::optional<std::size_t> client;
  DataCommitment data;  ///< From the ledgers' first lines; empty without noise.
  /// The time at which the run began, before it read an example, as "2026-05-17T12:00:00Z". From
  /// the ledgers' first lines; "" if they do not contain it.
  std::string date = {};
  ReleasedCounts counts = {};  ///< Set once the run has ended; empty if none are planned.

  /// The plan's numbers, with the actual charges instead of the planned charges: the stated
  /// client's charges, with the noise that was chosen.
  PlanNumbers stated(const Plan& plan) const;

  /// The plan's event, if its cost is `epsilon`, because the run is accounted for in full or has
  /// adaptive noise. Nothing for other runs, whose event is the composition of the ledger's lines;
  /// and nothing if each client has a ledger, because no single event describes such a run.
  std::optional<Event> accounted_event(const Plan& plan) const;
};

/// The outcome of an unfinished run, with the largest possible cost of its plan.
Outcome outcome_of_all(const PlanNumbers& plan);

}  // namespace privgrad::core
