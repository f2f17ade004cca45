#include "digits.hpp"

#include <algorithm>
#include <cmath>

namespace privgrad::report {

std::string with_interval(double value, const std::array<double, 2>& ends) {
  constexpr double kLargestFixed = 1e9;
  const double half = (ends[1] - ends[0]) / 2.0;
  const double size = std::max({std::fabs(value), std::fabs(ends[0]), std::fabs(ends[1])});
  const int decimals = half > 0.0 ? 1 - static_cast<int>(std::floor(std::log10(half))) : 4;
  const bool is_fixed = half > 0.0 && size < kLargestFixed && decimals <= 8;
  const auto shown = [&](double x) {
    return is_fixed ? core::number_text(x, std::chars_format::fixed, std::max(0, decimals))
                    : core::short_number(x, 4);
  };
  return shown(value) + " [" + shown(ends[0]) + ", " + shown(ends[1]) + "]";
}

}  // namespace privgrad::report
