#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "privgrad/core/correlated_recipes.hpp"
#include "privgrad/core/ledger.hpp"
#include "privgrad/core/participation.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/random.hpp"
#include "privgrad/sampler.hpp"

namespace privgrad::core {

/// What one example's part in the run costs, over all examples, in zCDP's rho: that of its own
/// steps in the order that was drawn. The largest is what the run guarantees to everyone.
struct RhoOfExamples {
  double least = 0.0, first_quartile = 0.0, median = 0.0, mean = 0.0, third_quartile = 0.0;
  double most = 0.0;
  std::uint64_t fewest_steps = 0, most_steps = 0;  ///< In how many batches an example is.
};

/// The part of a plan whose releases share data or noise between steps: the recipes, and the very
/// order that they are accounted for, which the run follows.
struct CorrelatedPlan {
  CorrelatedRecipes recipes;
  std::shared_ptr<const RandomSource> random;  ///< The sampler's streams, of that order.
  std::shared_ptr<const Participation> participation;
  CorrelatedCost cost;

  /// One charge per step. The steps are paid for in up to 64 blocks, at the first step of each: by
  /// how much the squared sensitivity grows until its last step, as a Gaussian of its own.
  ///
  /// Proof: the releases up to any step are one Gaussian mechanism, of the squared sensitivity
  /// there (SquaredSensitivity). Gaussian mechanisms of noise multipliers 1/sqrt(a) and 1/sqrt(b)
  /// compose to that of 1/sqrt(a+b), exactly, for every accountant that is one; so what has been
  /// charged at any step is the mechanism up to the end of its block, at least what has been
  /// released. All of it follows from public numbers that are fixed before the first step, as a
  /// privacy filter needs.
  std::vector<Charge> charges() const;

  RhoOfExamples rho(const PublicOrder& order, std::uint64_t rows, Adjacency adjacency) const;
};

nlohmann::json to_json(const RhoOfExamples& rho);

/// Makes the correlated part of plans for one sampler while a scale is being searched: the order is
/// drawn once for the same batches, and the cost computed once for the same recipes but for a
/// factor of the noise.
class CorrelatedPlanner {
 public:
  /// \param random  the sampler's streams.
  explicit CorrelatedPlanner(std::shared_ptr<const RandomSource> random)
      : random_(std::move(random)) {}

  /// \param order  a sampler that was started for these batch sizes.
  CorrelatedPlan plan(CorrelatedRecipes recipes, PublicOrder& order,
                      const std::vector<double>& batch_sizes);

 private:
  std::shared_ptr<const RandomSource> random_;
  std::vector<double> batch_sizes_;  // that participation_ was drawn for
  std::shared_ptr<const Participation> participation_;
  std::optional<CorrelatedRecipes> recipes_;  // that cost_ was computed for
  CorrelatedCost cost_;
};

}  // namespace privgrad::core
