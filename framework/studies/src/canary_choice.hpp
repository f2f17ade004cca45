// Picks the row that is easiest to detect, for audits by repeated runs with several candidates.
#pragma once

#include <cstdint>
#include <vector>

#include "audit_bounds.hpp"

namespace privgrad::core {

/// The observations of one of the repeated runs, for each canary.
struct RunSeen {
  std::vector<bool> coins;                ///< [canaries]
  std::vector<double> scores;             ///< [canaries], by the likelihoods under the plan.
  std::vector<std::vector<float>> moved;  ///< [canaries][steps], in units of a contribution.
};

/// Guesses about the most detectable canary, with the best statistic for it.
///
/// The plan does not show where a fault is. A sampler that always takes the first row is fair to
/// all other rows; a sampler that always draws the same batches reveals a row by its steps, which
/// the likelihood under the plan ignores. So the runs are divided. From the first third, weights of
/// the steps are learnt for each row: how each step's release changes with the coin. The second
/// third chooses a row, and either the plan's likelihood or the row's weights, by the number of
/// right guesses. With that choice, guesses are made for the last third, and only these count. The
/// last third's coins are independent of everything before, so the bound holds for any choice:
/// given all other coins and runs, flipping the chosen canary's coin yields a neighbour.
/// \param runs  at least 3, each with the same number of canaries.
/// \returns a guess for each of the last guessed_runs() runs.
std::vector<AuditGuess> guesses_of_the_best(const std::vector<RunSeen>& runs);

/// \returns the number of repeated runs for which guesses are made: all runs if only one row is
///   tried.
std::uint64_t guessed_runs(std::uint64_t runs, std::uint64_t canaries);

}  // namespace privgrad::core
