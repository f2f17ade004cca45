// The plan of releases that share data or noise between steps, and their cost for each example.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <vector>

#include "privgrad/privacy.hpp"
#include "privgrad/random.hpp"
#include "privgrad/record/plan_facts.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/trust/correlated_recipes.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/participation.hpp"
#include "privgrad/trust/separation.hpp"

namespace privgrad::core {

/// The order of participation for which releases without amplification are charged: either the
/// exact order of examples that the run follows, or a rule that the participants follow.
struct DrawnOrder {
  std::shared_ptr<const RandomSource> random;          ///< The streams that draw the order.
  std::shared_ptr<const Participation> participation;  ///< Null: `separation` is charged instead.
  /// The rule that all clients follow, if there is no exact order. The sampler then draws the
  /// intended participants, from streams that need not be secret.
  std::optional<Separation> separation;
  CorrelatedCost cost;

  /// \param order  the sampler; null if `separation` is set, which charges all clients alike.
  RhoOfExamples rho(const PublicOrder* order, std::uint64_t rows, std::uint64_t steps,
                    Adjacency adjacency) const;
};

/// The part of a plan whose releases share data or noise between steps: the recipes, and how
/// examples take part in them.
struct CorrelatedPlan {
  /// One part or, if the aggregator uses gradient differences, the parts from parts_of().
  std::vector<CorrelatedPart> parts;
  /// If absent: an example has one step in each cycle, and a coin decides whether it takes part.
  std::optional<DrawnOrder> order = std::nullopt;
  /// Without an order: each step's noise multiplier before amplification (banded_multipliers()).
  std::vector<double> multipliers = {};

  std::uint64_t steps() const { return parts.front().recipes.steps(); }
  /// CorrelatedCost::is_attained; false for amplified releases, whose charge is an upper bound.
  bool is_attained() const { return order && order->cost.is_attained; }

  /// One charge per step; requires an order. The steps are charged in up to 64 blocks. The first
  /// step of a block is charged a Gaussian for the growth of the squared sensitivity in the block.
  ///
  /// Proof: the releases up to any step form one Gaussian mechanism with the squared sensitivity of
  /// that step (SquaredSensitivity). Gaussian mechanisms with noise multipliers 1/sqrt(a) and
  /// 1/sqrt(b) compose exactly to one with 1/sqrt(a+b), for every correct accountant; so the
  /// charges up to any step equal the cost of the mechanism up to the end of the step's block,
  /// which covers at least everything released. All of this follows from public numbers that are
  /// fixed before the first step, as a privacy filter requires.
  std::vector<Charge> charges() const;
};

/// The release of a step: a Gaussian with the step's own noise, or one for each part that makes a
/// release in this step.
Event release_of(std::span<const CorrelatedPart> parts, std::uint64_t step);

/// The parts of a started aggregator's releases: gradients at the anchors; differences since the
/// anchors; and, if there are steps after the first epoch, differences between anchors.
/// \throws PrivacyError, PluginError like CorrelatedRecipes::of(); PluginError for an invalid
///   bound, or an epoch of 0 steps.
std::vector<CorrelatedPart> parts_of(const Aggregator& aggregator,
                                     const UsesGradientDifferences& differences,
                                     std::uint64_t steps);

/// Makes the correlated part of plans for one sampler during the search for a scale. Draws the
/// order once as long as the batch sizes stay the same, and computes the cost once for recipes that
/// differ only by a factor of the noise.
class CorrelatedPlanner {
 public:
  /// \param random  the sampler's streams.
  explicit CorrelatedPlanner(std::shared_ptr<const RandomSource> random)
      : random_(std::move(random)) {}

  /// \param order  a sampler that was started with these batch sizes.
  CorrelatedPlan plan(std::vector<CorrelatedPart> parts, PublicOrder& order,
                      const std::vector<double>& batch_sizes);

  /// Plans for clients that follow a rule, which must be the same in all calls.
  /// \param parts  one part, with a window.
  CorrelatedPlan plan(std::vector<CorrelatedPart> parts, const Separation& separation);

 private:
  CorrelatedCost cost_with(const std::vector<CorrelatedPart>& parts,
                           const std::function<CorrelatedCost()>& computed);

  std::shared_ptr<const RandomSource> random_;
  std::vector<double> batch_sizes_;  // the batch sizes for which participation_ was drawn
  std::shared_ptr<const Participation> participation_;
  std::vector<CorrelatedPart> parts_;  // the parts for which cost_ was computed
  CorrelatedCost cost_;
};

}  // namespace privgrad::core
