// The release recipes of a run with correlated noise, and what such a run costs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "privgrad/aggregator.hpp"
#include "privgrad/trust/participation.hpp"

namespace privgrad::core {

/// The recipes of a run whose releases share data or noise between steps, asked for once: what is
/// accounted is what is run, whatever the aggregator would answer later.
///
/// Accounting. Let q_t = s_t + bound z_t - sum_i share_i K(step_i, t) (s_{step_i} + bound
/// z_{step_i}), the release of step t less what it continues. By the recipe the noise in q_t is
/// that of the step's own nodes alone, bound * m_t * N(0, I) with m_t the root of their summed
/// squared multipliers, independent between steps because no node is named twice. The data in it is
/// s_t - sum_i share_i K(step_i, t) s_{step_i} = sum over u <= t of R_tu x_u, with
///
///     R_tu = K(u, t) (1 - sum over i with step_i >= u of share_i),
///
/// because K(u, step_i) K(step_i, t) = K(u, t). Releasing all s_t + bound z_t is releasing all q_t:
/// each follows from the other by a triangular linear map, so neither is more private. So the run
/// is the linear mechanism R with noise m_t on row t, and SquaredSensitivity says what it costs.
///
/// Of an aggregator with a window, x_t + sum_j N_{t,t-j} zeta_{t-j} is released, N lower triangular
/// with a positive diagonal: X + N zeta = N (C X + zeta) with C = N^-1. Row t of N needs rows up to
/// t alone of Y = C X + zeta, so the releases up to t follow from Y_0 ... Y_t and the other way
/// round, and the run is the linear mechanism C with noise 1 on each row, also if x_t depends on
/// releases before it. N is the doubles of the recipes, and C is defined by them.
class CorrelatedRecipes {
 public:
  /// \returns nothing if every step releases its own data with noise of its own, unscaled.
  /// \throws PrivacyError for a step without noise of its own, with a node that was named before
  ///   (but for those that a window allows), or on a grid; PluginError for numbers that are not
  ///   finite, earlier steps that are not earlier, and too large a window.
  static std::optional<CorrelatedRecipes> of(const Aggregator& aggregator, std::uint64_t steps);

  /// The same for any recipes, also if they are of independent noise.
  /// \param steps  > 0.
  /// \param window  as Aggregator::window().
  static CorrelatedRecipes of(const std::function<ReleaseRecipe(std::uint64_t)>& recipe,
                              std::uint64_t steps, std::uint64_t window = 0);

  std::uint64_t steps() const { return keep_.size(); }
  double keep(std::uint64_t step) const { return keep_[step]; }
  double scale(std::uint64_t step) const { return scale_[step]; }
  /// m_t: of the step's own nodes together.
  double own_multiplier(std::uint64_t step) const { return own_multiplier_[step]; }
  /// The number of steps whose noise a later one may name again; 0: none is.
  std::uint64_t window() const { return window_; }
  /// With a window: the distance to the step that this term's noise is of; 0 for the first term.
  std::uint64_t age(std::uint64_t step, const NoiseTerm& term) const;
  /// Latest first.
  std::span<const EarlierNoise> earlier(std::uint64_t step) const {
    return std::span(earlier_).subspan(earlier_begins_[step],
                                       earlier_begins_[step + 1] - earlier_begins_[step]);
  }
  std::span<const NoiseTerm> noise(std::uint64_t step) const {
    return std::span(noise_).subspan(noise_begins_[step],
                                     noise_begins_[step + 1] - noise_begins_[step]);
  }
  /// The last step that continues the noise of this one; the step itself if none does.
  std::uint64_t last_use(std::uint64_t step) const { return last_use_[step]; }

  /// The length of a running sum, at most, in contributions of full length: the number of steps, or
  /// 1 / (1 - keep) where that is less; infinite where a sum can grow by itself (a keep above 1).
  double remembered_steps() const;

  /// The largest number of steps whose noise is kept after a step because a later one continues it.
  std::uint64_t most_kept() const;

  /// Whether these releases are the other's with all noise multiplied by one factor, up to a
  /// relative 1e-12.
  /// \returns the smallest such factor of any step, or nothing.
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

/// One of the sums that a run releases: the recipes for it, and how long contributions to it can
/// be.
struct CorrelatedPart {
  CorrelatedRecipes recipes;
  std::uint64_t first_step = 0;  ///< The step of the run that is the recipes' step 0.
  /// Bound of one unit's contribution to each step of the recipes, in units of the clip norm;
  /// empty: 1.
  std::vector<double> bounds = {};

  double bound(std::uint64_t step) const { return bounds.empty() ? 1.0 : bounds[step]; }
};

/// The cost of correlated releases, as squared sensitivity over squared noise. Together they are
/// one Gaussian mechanism, whose noise multiplier is one over the root of this cost.
struct CorrelatedCost {
  std::vector<double> of_groups;  ///< The cost for each group, over the whole run.
  /// The largest of any group in the steps up to each, rounded up; not decreasing.
  std::vector<double> worst_after;
  /// Whether some contributions move the releases by what was charged, rounding aside. They do if
  /// there is one part and no release takes data away (R has no negative entry): equal ones. Else
  /// the cost is an upper bound.
  bool is_attained = true;
};

/// The cost of all parts together, as one mechanism: their noise is independent, so the squares of
/// one unit's changes add up, step by step.
///
/// Data enters a release with R_tu times a contribution of norm bound(u) at most. Contributions to
/// different parts of a step come from the same example and may depend on each other in any way:
/// each part is charged as if its contributions were the worst.
/// \param parts  the steps of each end with the run.
CorrelatedCost cost_of(std::span<const CorrelatedPart> parts, const Participation& participation);
CorrelatedCost cost_of(const CorrelatedRecipes& recipes, const Participation& participation);

/// The cost of the same run with all its noise multiplied by `factor`.
CorrelatedCost with_noise_times(CorrelatedCost cost, double factor);

/// Variance of z_t, step after step, in squared units of the bound.
class NoiseVariance {
 public:
  /// \param recipes  must outlive this.
  explicit NoiseVariance(const CorrelatedRecipes& recipes) : recipes_(recipes) {}

  /// \returns the variance of the next step's z_t.
  double next();

 private:
  struct Kept {
    std::uint64_t step = 0;
    std::vector<double> covariances;  // with kept_[0..], itself included, undiscounted
    double carried = 1.0;             // K(step, now)
  };

  const CorrelatedRecipes& recipes_;
  std::uint64_t step_ = 0;
  std::vector<Kept> kept_;  // steps that a later one continues, in order
};

}  // namespace privgrad::core
