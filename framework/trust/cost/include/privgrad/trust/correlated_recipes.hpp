// The release recipes of a run with correlated noise, and the cost of such a run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "privgrad/aggregator.hpp"
#include "privgrad/trust/participation.hpp"

namespace privgrad::core {

/// The recipes of a run whose releases share data or noise between steps. The aggregator is asked
/// once, so the accounted recipes are the executed ones even if it would answer differently later.
///
/// Accounting, in the notation of ReleaseRecipe. The release of step t minus the releases that it
/// continues is q_t = s_t + bound z_t - sum_i share_i K(step_i, t) (s_{step_i} + bound z_{step_i}).
/// By the recipe, the noise in q_t comes only from the step's own nodes: it is bound m_t N(0, I),
/// where m_t is the root of their summed squared multipliers. This noise is independent between
/// steps because no node is named twice. The data in q_t is
/// s_t - sum_i share_i K(step_i, t) s_{step_i} = sum over u <= t of R_tu x_u, with
///
///     R_tu = K(u, t) (1 - sum over i with step_i >= u of share_i),
///
/// because K(u, step_i) K(step_i, t) = K(u, t). Releasing all s_t + bound z_t is equivalent to
/// releasing all q_t, because a triangular linear map turns each into the other. So the run is the
/// linear mechanism R with noise m_t on row t, whose cost SquaredSensitivity computes.
///
/// An aggregator with a window releases x_t + sum_j N_{t,t-j} zeta_{t-j}, where N is lower
/// triangular with a positive diagonal: X + N zeta = N (C X + zeta) with C = N^-1. Row t of N needs
/// only rows up to t of Y = C X + zeta, so the releases up to t determine Y_0 ... Y_t and vice
/// versa. The run is therefore the linear mechanism C with noise 1 on each row, even if x_t depends
/// on earlier releases. N consists of the recipes' doubles, and C is defined as its exact inverse.
class CorrelatedRecipes {
 public:
  /// \returns nothing if there is no window and no step is scaled or shares data or noise.
  /// \throws PrivacyError for a step without finite noise of its own, or whose nodes break the
  ///   rules of NoiseTerm; PluginError for other numbers that are not finite, `earlier` steps that
  ///   are not earlier or are named twice, or a window that is too large.
  static std::optional<CorrelatedRecipes> of(const Aggregator& aggregator, std::uint64_t steps);

  /// Accepts any recipes, including recipes with independent noise.
  /// \param steps  > 0.
  /// \param window  the same as Aggregator::window().
  static CorrelatedRecipes of(const std::function<ReleaseRecipe(std::uint64_t)>& recipe,
                              std::uint64_t steps, std::uint64_t window = 0);

  std::uint64_t steps() const { return keep_.size(); }
  double keep(std::uint64_t step) const { return keep_[step]; }
  double scale(std::uint64_t step) const { return scale_[step]; }
  /// m_t: the joint multiplier of the step's own nodes.
  double own_multiplier(std::uint64_t step) const { return own_multiplier_[step]; }
  /// A step may reuse the noise of this many steps before it; 0: noise is never reused.
  std::uint64_t window() const { return window_; }
  /// With a window: the number of steps since this term's noise was new; 0 for the first term.
  std::uint64_t age(std::uint64_t step, const NoiseTerm& term) const;
  /// Returns the earlier noise that a step carries over, latest first.
  std::span<const EarlierNoise> earlier(std::uint64_t step) const {
    return std::span(earlier_).subspan(earlier_begins_[step],
                                       earlier_begins_[step + 1] - earlier_begins_[step]);
  }
  std::span<const NoiseTerm> noise(std::uint64_t step) const {
    return std::span(noise_).subspan(noise_begins_[step],
                                     noise_begins_[step + 1] - noise_begins_[step]);
  }
  /// Returns the last step that continues this step's noise; the step itself if no later step does.
  std::uint64_t last_use(std::uint64_t step) const { return last_use_[step]; }

  /// An upper bound on the norm of a running sum, in multiples of the largest contribution: the
  /// number of steps, or 1 / (1 - k) if that is less, where k is the largest |keep|; infinite if k
  /// is above 1, because a sum can then grow by itself.
  double remembered_steps() const;

  /// The largest number of steps whose noise is stored at one time because later steps continue it.
  std::uint64_t most_kept() const;

  /// If these recipes, apart from their scales, equal `other` with all noise multiplied by one
  /// factor, up to a relative 1e-12 (with a window, kSameFactor), returns the smallest such factor
  /// of any step; otherwise nothing.
  std::optional<double> noise_relative_to(const CorrelatedRecipes& other) const;

 private:
  CorrelatedRecipes() = default;
  void add(std::uint64_t step, ReleaseRecipe recipe);
  void refuse_repeated_nodes() const;
  void require_window() const;
  std::optional<double> windowed_noise_relative_to(const CorrelatedRecipes& other) const;

  std::uint64_t window_ = 0;
  std::vector<double> keep_, scale_, own_multiplier_;
  std::vector<std::uint64_t> last_use_;
  std::vector<std::uint64_t> earlier_begins_{0}, noise_begins_{0};
  std::vector<EarlierNoise> earlier_;
  std::vector<NoiseTerm> noise_;
};

/// One of the sums that a run releases: its recipes, and bounds on the contributions to it.
struct CorrelatedPart {
  CorrelatedRecipes recipes;
  std::uint64_t first_step = 0;  ///< The step of the run that is the recipes' step 0.
  /// The bound on one unit's contribution to each step of the recipes, in units of the clip norm;
  /// empty: 1.
  std::vector<double> bounds = {};

  double bound(std::uint64_t step) const { return bounds.empty() ? 1.0 : bounds[step]; }
};

/// The cost of correlated releases, as squared sensitivity over squared noise. Together they are
/// one Gaussian mechanism, whose noise multiplier is one over the root of this cost.
struct CorrelatedCost {
  std::vector<double> of_groups;  ///< The cost for each group, over the whole run.
  /// For each step, the largest cost of any group up to that step, rounded up; non-decreasing.
  std::vector<double> worst_after;
  /// Whether some contributions attain the charged cost, up to rounding errors. If there is one
  /// part and no release subtracts data (R has no negative entry), equal contributions do.
  /// Otherwise the cost is an upper bound.
  bool is_attained = true;
};

/// Returns the cost of all parts together, as one mechanism: their noise is independent, so the
/// squares of one unit's changes add up, step by step.
///
/// Data enters a release as R_tu times a contribution of norm at most bound(u). Contributions to
/// different parts of a step come from the same example and may depend on each other in any way:
/// each part is charged for its worst contributions.
/// \param parts  each part's steps end with the run.
CorrelatedCost cost_of(std::span<const CorrelatedPart> parts, const Participation& participation);
CorrelatedCost cost_of(const CorrelatedRecipes& recipes, const Participation& participation);

/// Returns the cost of the same run with all its noise multiplied by `factor`.
CorrelatedCost with_noise_times(CorrelatedCost cost, double factor);

/// Computes the variance of z_t, step by step, in squared units of the bound.
class NoiseVariance {
 public:
  /// \param recipes  must outlive this.
  explicit NoiseVariance(const CorrelatedRecipes& recipes) : recipes_(recipes) {}

  /// \returns the variance of the next step's z_t.
  double next();

 private:
  struct Kept {
    std::uint64_t step = 0;
    std::vector<double> covariances;  // with each earlier noise in kept_ and itself, undiscounted
    double carried = 1.0;             // K(step, now)
  };

  const CorrelatedRecipes& recipes_;
  std::uint64_t step_ = 0;
  std::vector<Kept> kept_;  // steps whose noise a later step continues, in order
};

}  // namespace privgrad::core
