#include "privgrad/trust/joint_release.hpp"

#include <cmath>
#include <limits>

#include "privgrad/error.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

double count_share(double noise_multiplier, double count_noise) {
  // Rounds down to whole cells of exact_sum()'s grid, so that the count is exact there.
  constexpr auto kLevels = static_cast<double>(kExactLevels);
  const double share = std::floor(noise_multiplier / (2.0 * count_noise) * kLevels) / kLevels;
  constexpr double kLargest = 1.0 - 1e-9;  // leaves a share for the gradients
  if (share <= kLargest && share > 0.0) return share;
  throw ConfigError("the noise of the count is " + format_number(count_noise) +
                    ", allowed is more than half the noise multiplier, which is " +
                    format_number(noise_multiplier));
}

double gradient_share(double count_share) {
  constexpr double kUnit = std::numeric_limits<double>::epsilon();
  // Eight units of 2^-52 cover the rounding here and in the two products of v.
  return std::sqrt((1.0 - count_share) * (1.0 + count_share) - 8.0 * kUnit);
}

}  // namespace privgrad::core
