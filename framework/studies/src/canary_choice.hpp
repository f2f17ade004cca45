// Picks the canary that gives itself away most, for audits by repeated runs with several places.
#pragma once

#include <cstdint>
#include <vector>

#include "audit_bounds.hpp"

namespace privgrad::core {

/// The observations of one of the repeated runs, for each canary.
struct RunSeen {
  std::vector<bool> coins;                ///< [canaries]
  std::vector<double> scores;             ///< [canaries], by the likelihoods of the plan.
  std::vector<std::vector<float>> moved;  ///< [canaries][steps], in contributions of a canary.
};

/// The guesses about the canary whose place betrays most, by the statistic that betrays it.
///
/// The plan does not say where a fault is: a sampler that always takes the first row is fair to all
/// others, and one that always draws the same batches betrays a row by the steps that it is in,
/// which no likelihood of the plan looks at. So the runs are divided. The first third shows, for
/// each place, how far each step's release moves with the coin. The second third decides between
/// places, and between the plan's likelihood and these weights: whichever guesses right most often.
/// The last third is guessed with that choice, and is all that counts. Its coins are independent of
/// everything before, so that the bound holds however the choice was made: given all other coins
/// and runs, turning over the coin of the chosen canary makes a neighbour.
/// \param runs  at least 3, each with the same number of canaries.
/// \returns a guess for each of the last guessed_runs() runs.
std::vector<AuditGuess> guesses_of_the_best(const std::vector<RunSeen>& runs);

/// \returns how many of the repeated runs are guessed: all of them if there is one place.
std::uint64_t guessed_runs(std::uint64_t runs, std::uint64_t canaries);

}  // namespace privgrad::core
