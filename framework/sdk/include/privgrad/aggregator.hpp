// The interface of aggregators: which sums and which noise make up the release of each step.
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

/// One Gaussian vector zeta(node) ~ N(0, I), and what it is multiplied by. The same node always means the same vector, within a run.
///
/// An aggregator without a window names each node once: a later step that wants the noise of an
/// earlier one names that step. With a window (Aggregator::window()), the first term of a step is a
/// node that no earlier step has named, with a multiplier above 0; the others are first terms of
/// steps within the window, and mean the same vectors.
struct NoiseTerm {
  std::uint64_t node = 0;
  double multiplier = 0.0;  ///< In units of the L2 bound of one unit's contribution to one step.
};

/// The whole noise of an earlier step's release, carried along like the data of that release.
struct EarlierNoise {
  std::uint64_t step = 0;  ///< Before the step of the recipe.
  double share = 0.0;      ///< 1: as much of it as of the data.
};

/// The recipe by which one step's release is made from the bounded sums x so far and from noise:
///
///     s_t = keep_t s_{t-1} + x_t                                                     (s_{-1} = 0)
///     z_t = sum_i share_i K(step_i, t) z_{step_i} + sum_j multiplier_j zeta(node_j)
///     released_t = scale (s_t + l2_bound z_t) / divisor
///
/// where K(u, t) = keep_{u+1} ... keep_t is what step t still holds of the data of step u. With a
/// share of 1 the release continues that of the earlier step: what comes new between them is
/// s_t - K s_u, the data of the steps u+1 to t, and that has the noise of this step's nodes. A tree
/// is made of such recipes, and every lower-triangular matrix mechanism can be.
///
/// `keep` = 0, no `earlier` and a `scale` of 1 in all steps is independent noise, or, with a window,
/// that of a banded noising matrix N: z_t = sum_j N_{t,t-j} zeta(t - j). All recipes of an aggregator
/// with a window are so.
struct ReleaseRecipe {
  double keep = 0.0;
  std::vector<EarlierNoise> earlier = {};
  std::vector<NoiseTerm> noise = {};
  double scale = 1.0;
};

/// The largest window of an aggregator.
inline constexpr std::uint64_t kMostNoiseWindow = 15;

/// The public facts of the plan that an aggregator may use.
struct AggregationPlan {
  std::uint64_t steps = 0;
  // One per step; valid during start() only.
  std::span<const double> noise_multipliers;    ///< > 0.
  std::span<const double> clip_norms = {};      ///< > 0.
  std::span<const double> learning_rates = {};  ///< >= 0.
  RunFacts facts = {};
};

/// Decides how bounded sums become releases.
///
/// An aggregator is a public linear recipe and never touches data: the core runs the recipe, draws
/// the noise and derives from the same recipe what is charged, so that what is charged is what was
/// done. Independent noise uses one fresh node per step; trees and matrix mechanisms continue the
/// noise of earlier steps.
///
/// Threads: const functions may run concurrently.
///
/// Example, independent Gaussian noise in every step:
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

  /// Called once, before recipe(); again with other multipliers while a schedule is being
  /// calibrated.
  virtual void start(const AggregationPlan& plan) = 0;

  /// \param step  0-based, below the plan's steps.
  /// \returns finite numbers; the same for the same step, on every call and thread.
  virtual ReleaseRecipe recipe(std::uint64_t step) const = 0;

  /// The number of steps whose noise a later step may name again; fixed by start(), at most
  /// kMostNoiseWindow. The core draws that noise anew from the keys of these steps, which it keeps:
  /// it takes time, and no memory.
  virtual std::uint64_t window() const { return 0; }

  // ---- What only some aggregators have; by default none of it.

  /// Numbers that an optimisation finds, whose last digits depend on the processor. The core asks for
  /// them when a run is planned for the first time, and keeps them in its lock file: who resumes or
  /// verifies it uses the same ones.
  /// \param plan  as for start().
  /// \returns finite numbers that depend on the plan alone; the same for noise multipliers that
  ///   differ in one factor. Empty: it optimises nothing.
  virtual std::vector<double> optimized(const AggregationPlan& /*plan*/) const { return {}; }
  /// Called before start() with what optimized() found, unless that is empty. What is charged follows
  /// from the recipes that start() makes of them.
  /// \throws ConfigError for numbers that optimized() cannot have found.
  virtual void use(std::span<const double> /*numbers*/) {}

  /// Of an aggregator with a window: a matrix C with few bands that its N is the inverse of, or
  /// nearly. Where examples take part by coins, at least as many steps apart as C has bands (sampler
  /// cyclic_poisson), the core charges the run as C X + zeta / phi, of which each step's draw
  /// amplifies the privacy. It finds by itself, from the recipes that run, how far C N is from the
  /// identity, and phi from that; so what is named here decides what a run costs, and never whether
  /// that is right. Called after start().
  /// \returns c_0 = 1, c_1, ...: the entry of C at row t + j and column t is c_j over the multiplier
  ///   of step t's own noise. Empty: the aggregator is for public orders alone.
  virtual std::vector<double> strategy() const { return {}; }

  /// The number of steps that it is best used for, where a theorem says so (`steps: auto`).
  /// \param facts  without steps.
  /// \returns a whole number >= 1; nothing: there is no such theorem.
  /// \throws ConfigError if the theorem does not cover these facts.
  virtual std::optional<AutoValue> auto_steps(const RunFacts& /*facts*/) const {
    return std::nullopt;
  }

  /// What became of its parameters that were given as `auto`, once it is started.
  virtual std::vector<AutoValue> auto_values() const { return {}; }

 protected:
  Aggregator() = default;
};

/// A difference of an example's gradients, each clipped to the clip norm first, at two iterates. An
/// epoch's anchor is the iterate that its first step begins with.
enum class GradientDifference {
  since_anchor,     ///< At the iterate of the step, minus at the epoch's anchor.
  between_anchors,  ///< At the epoch's anchor, minus at the anchor of the epoch before.
};

/// Optional ability of an aggregator: instead of gradients, the core sums up three vectors of each
/// example of the batch, and releases each by a recipe of its own.
///
/// The first is the gradient at the epoch's anchor, clipped as the manifest says: x_t of recipe().
/// The others are differences of clipped gradients, clipped once more, to difference_bound(): that
/// they are short is enforced, whatever the model, and charged as enforced. All three are accounted
/// together, as one mechanism.
class PRIVGRAD_API UsesGradientDifferences {
 public:
  virtual ~UsesGradientDifferences();

  /// Steps of an epoch, > 0: anchors are set at the steps 0, epoch_steps(), 2 epoch_steps(), ...
  virtual std::uint64_t epoch_steps() const = 0;

  /// The longest difference that is let through in this step, in units of the clip norm.
  /// \returns in [0, 2]; 0 in a step whose differences are 0 anyway.
  virtual double difference_bound(GradientDifference difference, std::uint64_t step) const = 0;

  /// As Aggregator::recipe(), with the differences of this kind for x; multipliers are in units of
  /// the clip norm.
  /// \param step  0-based; for between_anchors counted from the first step of the second epoch.
  virtual ReleaseRecipe difference_recipe(GradientDifference difference,
                                          std::uint64_t step) const = 0;

  /// Makes what the optimizer gets from what was released: post-processing. Steps come in order.
  /// \param at_anchor        released by recipe().
  /// \param since_anchor     released by difference_recipe().
  /// \param between_anchors  the same; empty in the first epoch.
  /// \param out              the combined gradient, of the same size.
  virtual void combine(std::uint64_t step, std::span<const float> at_anchor,
                       std::span<const float> since_anchor, std::span<const float> between_anchors,
                       std::span<float> out) = 0;

  /// \returns the standard deviation of the noise in each coordinate of what combine() makes, for
  ///   every step, in units of the clip norm over the divisor.
  virtual std::vector<double> combined_noise() const = 0;
};

}  // namespace privgrad
