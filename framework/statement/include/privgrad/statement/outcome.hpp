#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "privgrad/data/data_commitment.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/released_counts.hpp"

namespace privgrad::core {

/// How a run ended; `stopped_early`: by what it had released; `unfinished`: it has not.
enum class RunStatus {
  completed = 1,
  budget_exhausted,
  stopped_early,
  interrupted,
  diverged,
  unfinished
};

std::string_view to_text(RunStatus status);

/// How many steps were paid for.
struct ChargedSteps {
  std::uint64_t charged = 0;  ///< At least those that were made, unless noise is off.
  /// Those that epsilon is of. More than `charged` where releases decided when the run ended: then
  /// all that the budget pays for.
  std::uint64_t accounted = 0;
  /// Of a run whose accounted steps may be fewer than the budget pays for: releases beside them that
  /// were paid for. Nothing: all that are planned.
  std::optional<std::uint64_t> beside = std::nullopt;
};

/// What became of noise that adapts.
struct NoiseRecord {
  std::vector<double> noise_multiplier;    ///< Of each step that was paid for.
  std::vector<Charge> steps, checks;       ///< That were paid for.
  std::vector<std::uint64_t> measured_at;  ///< How many steps had been made.
  std::vector<double> measured;            ///< As the schedule saw it.
  double spent_epsilon = 0.0;              ///< What the ledger adds up to; no guarantee.
};

/// What came of a plan. Statements read both; the plan stays as it was.
struct Outcome {
  RunStatus status = RunStatus::unfinished;
  std::uint64_t steps = 0;  ///< Made.
  ChargedSteps paid;
  /// Of the accounted steps; infinite without noise. If the noise adapts, the budget: what was
  /// spent within it is no guarantee.
  PrivacyAnswer epsilon;
  std::optional<NoiseRecord> noise;  ///< Of noise that adapts, if the run has ended.
  /// Of a federated run that has ended: the client whose charges are stated, if it is not the one
  /// that was planned to cost most.
  std::optional<std::size_t> client;
  DataCommitment data;  ///< Of the ledgers' first lines; neither without noise.
  /// When the run began, as "2026-05-17T12:00:00Z": before it read an example. As the ledgers' first
  /// lines say it; "" if they do not.
  std::string date = {};
  ReleasedCounts counts = {};  ///< Of a run that has ended; nothing where none are planned.

  /// What was charged for, in place of what was planned: of the client that is stated, and with the
  /// noise that was chosen.
  PlanNumbers stated(const Plan& plan) const;
};

/// What a plan can come to at most: the outcome of a run that is cut off.
Outcome outcome_of_all(const Plan& plan);

}  // namespace privgrad::core
