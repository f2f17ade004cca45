// Prints numbers for human readers; epsilons are rounded in the safe direction.
#pragma once

#include <charconv>
#include <string>

namespace privgrad::core {

/// Returns a number as std::printf writes it in the C locale, whatever the locale of the process
/// is. A plugin may set another locale, and a decimal comma would change the meaning of an epsilon.
std::string number_text(double value, std::chars_format format, int precision);

/// \returns `value` with `digits` significant digits; "inf" for infinity.
std::string short_number(double value, int digits = 4);

/// Returns "2", or "1.5 to 3" if the two numbers differ in the digits shown.
std::string short_range(double low, double high, int digits = 4);

/// Like short_number(), but never below `value`: for an epsilon that is read as a guarantee.
std::string short_bound(double value, int digits = 6);

/// Like short_number(), but never above `value`: for a lower bound.
std::string short_lower_bound(double value, int digits = 6);

/// \returns `value` with `decimals` digits after the point, never below `value`.
std::string fixed_bound(double value, int decimals);

/// Like fixed_bound(), but never above `value`.
std::string fixed_lower_bound(double value, int decimals);

}  // namespace privgrad::core
