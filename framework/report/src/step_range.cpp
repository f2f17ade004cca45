#include "step_range.hpp"

#include <algorithm>

#include "privgrad/record/short_numbers.hpp"

namespace privgrad::report {

std::string range_of(const std::vector<double>& values) {
  const auto [least, most] = std::ranges::minmax_element(values);
  return core::short_range(*least, *most, 15);
}

}  // namespace privgrad::report
