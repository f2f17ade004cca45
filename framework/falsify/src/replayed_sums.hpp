// Recomputes correlated releases from their definition, and keeps all past sums.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "privgrad/trust/correlated_recipes.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// Recomputed released numbers.
struct Replayed {
  std::vector<float> values;
  double near = 0.0;  ///< The largest allowed difference from the run; 0 means the same bits.
};

/// The sums of one world's steps, and the results of the recipes, computed directly from the
/// definition (aggregator.hpp). With x_u the cells of step u, and Z_t the noise of step t's nodes:
///
///     s_t = sum over u of K(u, t) x_u,   q_t = s_t - sum_i share_i K(step_i, t) s_{step_i} + Z_t,
///     released_t = scale R_t,            R_t = q_t + sum_i share_i K(step_i, t) R_{step_i}.
///
/// With a window, s_t = x_t, and Z_t includes the noise of earlier steps.
///
/// If all recipes of a part are whole, the result is exactly the released number. Otherwise the run
/// uses fixed-point fractions. Run and recomputation round q_t to coarse cells, narrower than a
/// five-hundredth of the smallest noise, so their results may differ by this width.
class ReplayedSums {
 public:
  /// \param parts  the parts of the run, which outlive this.
  /// \param noise_key  the noise key of the run.
  /// \param elements  the number of elements in each sum.
  ReplayedSums(std::span<const CorrelatedPart> parts, const RandomKey& noise_key,
               std::size_t elements);

  /// Whether all factors in the recipes of all parts are integers.
  static bool are_whole(std::span<const CorrelatedPart> parts);

  /// Recomputes the release of a step; steps must come in order.
  /// \param cells  the x_t of this part.
  /// \param width  the width of a cell divided by the divisor.
  /// \param noised  if false, returns scale s_t, without noise.
  Replayed release(std::size_t part, std::uint64_t step_of_run, std::span<const std::int64_t> cells,
                   double width, bool noised);

 private:
  using Real = long double;  // has at least 64 binary digits, so whole sums are exact

  struct Step {
    std::vector<Real> x, released;  // R, in cells
    Real error = 0;                 // a bound on the error of R
  };
  struct Part {
    const CorrelatedPart* planned;
    RandomKey key;
    bool is_whole;
    double sigma_least;  // the smallest noise, in cells
    std::vector<Step> past;
  };

  static Real held(const CorrelatedRecipes& recipes, std::uint64_t from, std::uint64_t to);
  static std::vector<Real> sum(const Part& part, std::uint64_t step);

  std::vector<Part> parts_;
  std::size_t elements_;
};

}  // namespace privgrad::core
