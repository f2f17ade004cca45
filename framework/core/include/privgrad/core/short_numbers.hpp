#pragma once

#include <string>

namespace privgrad::core {

/// \returns `value` with `digits` significant digits; "inf" for infinity.
std::string short_number(double value, int digits = 4);

/// As short_number, but never below `value`: for an epsilon that is read as a guarantee.
std::string short_bound(double value, int digits = 6);

/// As short_number, but never above `value`: for a lower bound.
std::string short_lower_bound(double value, int digits = 6);

}  // namespace privgrad::core
