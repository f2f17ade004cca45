// The interface of aggregators: which sums and which noise make up each step's release.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "privgrad/component_state.hpp"
#include "privgrad/export.hpp"
#include "privgrad/run_facts.hpp"

namespace privgrad {

/// A multiple of the Gaussian vector zeta(node) ~ N(0, I). Equal nodes mean the same vector.
///
/// Without a window, an aggregator names each node only once: a later step that needs the noise of
/// an earlier step refers to that step. With a window (Aggregator::window()), the first term of a
/// step is a new node with a multiplier above 0. The other terms of the step repeat the first terms
/// of earlier steps within the window.
struct NoiseTerm {
  std::uint64_t node = 0;
  double multiplier = 0.0;  ///< In units of the L2 bound of a unit's contribution to a step.
};

/// The total noise of an earlier step's release, carried over like the data of that release.
struct EarlierNoise {
  std::uint64_t step = 0;  ///< Earlier than the recipe's own step.
  double share = 0.0;      ///< 1: the noise is carried over in the same proportion as the data.
};

/// The recipe that makes one step's release from the bounded sums x so far and from noise:
///
///     s_t = keep_t s_{t-1} + x_t                                                     (s_{-1} = 0)
///     z_t = sum_i share_i K(step_i, t) z_{step_i} + sum_j multiplier_j zeta(node_j)
///     released_t = scale (s_t + l2_bound z_t) / divisor
///
/// where K(u, t) = keep_{u+1} ... keep_t is the factor with which the data of step u enter step t.
/// With a share of 1 the release continues the release of the earlier step u: the new part
/// s_t - K s_u, which is the data of the steps u+1 to t, gets the noise of this step's nodes. Trees
/// are made of such recipes, and every lower-triangular matrix mechanism can be expressed by them.
///
/// If `keep` = 0, `earlier` is empty and `scale` = 1 in all steps, the noise of the steps is
/// independent or, with a window, made by a banded noising matrix N:
/// z_t = sum_j N_{t,t-j} zeta(t - j). All recipes of an aggregator with a window must have this
/// form.
struct ReleaseRecipe {
  double keep = 0.0;
  std::vector<EarlierNoise> earlier = {};
  std::vector<NoiseTerm> noise = {};
  double scale = 1.0;
};

/// The largest window of an aggregator.
inline constexpr std::uint64_t kMostNoiseWindow = 15;

/// The public facts of the plan that are available to an aggregator.
struct AggregationPlan {
  std::uint64_t steps = 0;
  // One per step; valid only during start().
  std::span<const double> noise_multipliers;    ///< > 0.
  std::span<const double> clip_norms = {};      ///< > 0.
  std::span<const double> learning_rates = {};  ///< >= 0.
  RunFacts facts = {};
};

/// Decides how bounded sums are turned into releases.
///
/// An aggregator is a public linear recipe and never receives data: the core runs the recipe, draws
/// the noise, and derives the charge from the same recipe, so that the charge always matches the
/// release. Independent noise uses one fresh node per step; trees and matrix mechanisms continue
/// the noise of earlier steps.
///
/// Threads: const functions may run concurrently.
///
/// Example: independent Gaussian noise in every step:
///
///     class Independent final : public Aggregator {
///      public:
///       explicit Independent(const Params&) {}
///       void start(const AggregationPlan& plan) override {
///         multipliers_.assign(plan.noise_multipliers.begin(), plan.noise_multipliers.end());
///       }
///       ReleaseRecipe recipe(std::uint64_t step) const override {
///         return {.noise = {{.node = step, .multiplier = multipliers_.at(step)}}};
///       }
///
///      private:
///       std::vector<double> multipliers_;  // copied: the plan's span is valid in start() only
///     };
class PRIVGRAD_API Aggregator : public Stateful {
 public:
  static constexpr std::string_view kKind = "aggregator";
  static constexpr int kInterfaceVersion = 7;
  static constexpr std::string_view kSees = "public values";

  ~Aggregator() override;

  /// Called before recipe(): once, or repeatedly with different multipliers during
  /// calibration.
  virtual void start(const AggregationPlan& plan) = 0;

  /// \param step  0-based, below the plan's steps.
  /// \returns finite numbers; always the same for the same step, on every call and thread.
  virtual ReleaseRecipe recipe(std::uint64_t step) const = 0;

  /// The number of preceding steps whose noise a step may use again: at most kMostNoiseWindow,
  /// fixed by start(). The core keeps the keys of these steps and draws their noise again, which
  /// takes time but no memory.
  virtual std::uint64_t window() const { return 0; }

  // ---- Optional functions; the defaults suit most aggregators.

  /// Numbers that are found by optimisation, and whose last digits therefore depend on the
  /// processor. The core asks for them when a run is planned for the first time and stores them in
  /// its lock file; resuming and verifying the run use the stored numbers.
  /// \param plan  the same as for start().
  /// \returns finite numbers that depend only on the plan; noise multipliers that differ by a
  ///   common factor must give the same numbers. Empty: the aggregator optimises nothing.
  virtual std::vector<double> optimized(const AggregationPlan& /*plan*/) const { return {}; }
  /// Called before start() with the result of optimized(), unless that is empty. The charge follows
  /// from the recipes that start() then makes.
  /// \throws ConfigError for numbers that cannot be a result of optimized().
  virtual void use(std::span<const double> /*numbers*/) {}

  /// For an aggregator with a window: a matrix C with few bands whose inverse is N, at least
  /// approximately. If a sampler draws examples by coins, with an example's steps at least as far
  /// apart as C has bands (sampler cyclic_poisson), the core charges the run as C X + zeta / phi,
  /// amplified by each step's draw. From the actual recipes, the core computes how far C N is from
  /// the identity, and then phi from that distance. The answer thus affects what a run costs, never
  /// whether the charge is correct. Called after start().
  /// \returns c_0 = 1, c_1, ...: the entry of C at row t + j and column t is c_j divided by the
  ///   multiplier of step t's own noise. Empty: the aggregator only works with public orders.
  virtual std::vector<double> strategy() const { return {}; }

  /// The best number of steps for the aggregator, if a theorem gives one (`steps: auto`).
  /// \param facts  all facts except the number of steps.
  /// \returns a whole number >= 1; nothing if there is no such theorem.
  /// \throws ConfigError if the theorem does not cover these facts.
  virtual std::optional<AutoValue> auto_steps(const RunFacts& /*facts*/) const {
    return std::nullopt;
  }

  /// The values chosen for parameters that were given as `auto`. Called after start().
  virtual std::vector<AutoValue> auto_values() const { return {}; }

 protected:
  Aggregator() = default;
};

/// A difference of one example's gradients at two iterates, each clipped to the clip norm first. An
/// epoch's anchor is the iterate at the beginning of its first step.
enum class GradientDifference {
  /// The gradient at the iterate of the step minus the gradient at the anchor of the epoch.
  since_anchor,
  /// The gradient at the anchor of the epoch minus the gradient at the previous anchor.
  between_anchors,
};

/// Optional ability of an aggregator: instead of gradients, the core sums up three vectors of each
/// example of the batch, and releases each sum by its own recipe.
///
/// The first vector is the gradient at the epoch's anchor, clipped as the manifest says: x_t of
/// recipe(). The others are differences of clipped gradients, which are clipped again, to
/// difference_bound(): the core enforces this bound for every model and charges for the enforced
/// bound. All three are accounted together, as one mechanism.
class PRIVGRAD_API UsesGradientDifferences {
 public:
  virtual ~UsesGradientDifferences();

  /// Number of steps of an epoch, > 0: anchors are set at 0, epoch_steps(), 2 epoch_steps(), ...
  virtual std::uint64_t epoch_steps() const = 0;

  /// The bound to which differences are clipped in this step, in units of the clip norm.
  /// \returns in [0, 2]; 0 in a step whose differences are 0 anyway.
  virtual double difference_bound(GradientDifference difference, std::uint64_t step) const = 0;

  /// Like Aggregator::recipe(), with the differences of kind `difference` as x; multipliers are in
  /// units of the clip norm.
  /// \param step  0-based; for between_anchors counted from the first step of the second epoch.
  virtual ReleaseRecipe difference_recipe(GradientDifference difference,
                                          std::uint64_t step) const = 0;

  /// Computes the optimizer's gradient from released vectors: post-processing. Steps come in order.
  /// \param at_anchor  released by recipe().
  /// \param since_anchor  released by difference_recipe().
  /// \param between_anchors  released by difference_recipe(); empty in the first epoch.
  /// \param out  the combined gradient, of the same size.
  virtual void combine(std::uint64_t step, std::span<const float> at_anchor,
                       std::span<const float> since_anchor, std::span<const float> between_anchors,
                       std::span<float> out) = 0;

  /// \returns for every step the standard deviation of the noise in each coordinate of combine()'s
  ///   result, in units of the clip norm divided by the divisor.
  virtual std::vector<double> combined_noise() const = 0;
};

}  // namespace privgrad
