#include "canary_choice.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace privgrad::core {
namespace {

/// Weights of steps, and the threshold for the weighted sum.
struct Learned {
  std::vector<double> weights;  // empty: the plan's likelihood is used instead
  double middle = 0.0;
};

/// Learns the weight of each step: the mean difference between the two sides of the coin, divided
/// by the variance.
Learned learned_from(std::span<const RunSeen> runs, std::size_t canary) {
  const std::size_t steps = runs.front().moved[canary].size();
  std::vector<double> sums[2] = {std::vector<double>(steps), std::vector<double>(steps)};
  std::vector<double> squares(steps);
  double counts[2] = {};
  for (const RunSeen& run : runs) {
    const std::size_t side = run.coins[canary] ? 1 : 0;
    counts[side] += 1.0;
    for (std::size_t step = 0; step < steps; ++step) {
      const auto moved = static_cast<double>(run.moved[canary][step]);
      sums[side][step] += moved;
      squares[step] += moved * moved;
    }
  }
  Learned learned;
  if (counts[0] == 0.0 || counts[1] == 0.0) return learned;
  for (std::size_t step = 0; step < steps; ++step) {
    const double without = sums[0][step] / counts[0], with = sums[1][step] / counts[1];
    const double mean = (sums[0][step] + sums[1][step]) / (counts[0] + counts[1]);
    const double variance = squares[step] / (counts[0] + counts[1]) - mean * mean;
    const double weight = variance > 0.0 ? (with - without) / variance : 0.0;
    learned.weights.push_back(weight);
    learned.middle += weight * 0.5 * (with + without);
  }
  return learned;
}

AuditGuess guess(const RunSeen& run, std::size_t canary, const Learned& by) {
  double score = run.scores[canary];
  if (!by.weights.empty()) {
    score = -by.middle;
    for (std::size_t step = 0; step < by.weights.size(); ++step)
      score += by.weights[step] * static_cast<double>(run.moved[canary][step]);
  }
  return {score, (score > 0.0) == run.coins[canary]};
}

}  // namespace

std::uint64_t guessed_runs(std::uint64_t runs, std::uint64_t canaries) {
  return canaries <= 1 ? runs : runs - 2 * (runs / 3);
}

std::vector<AuditGuess> guesses_of_the_best(const std::vector<RunSeen>& runs) {
  const std::size_t third = runs.size() / 3;
  const auto all = std::span(runs);
  std::size_t best_canary = 0;
  Learned best;
  std::ptrdiff_t most = -1;
  for (std::size_t canary = 0; canary < runs.front().coins.size(); ++canary) {
    for (const Learned& by : {Learned{}, learned_from(all.first(third), canary)}) {
      const auto right =
          std::count_if(all.begin() + static_cast<std::ptrdiff_t>(third),
                        all.begin() + static_cast<std::ptrdiff_t>(2 * third),
                        [&](const RunSeen& run) { return guess(run, canary, by).is_right; });
      if (right <= most) continue;
      most = right;
      best_canary = canary;
      best = by;
    }
  }
  std::vector<AuditGuess> guesses;
  for (const RunSeen& run : all.subspan(2 * third))
    guesses.push_back(guess(run, best_canary, best));
  return guesses;
}

}  // namespace privgrad::core
