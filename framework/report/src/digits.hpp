// Formats the numbers of pages, with a dash for a missing value.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "privgrad/record/short_numbers.hpp"

namespace privgrad::report {

/// The number of digits of bounds on privacy, which are rounded towards the weaker claim.
inline constexpr int kBoundDigits = 5;

inline std::string digits(std::optional<double> value, int count = 4) {
  return value ? core::short_number(*value, count) : "-";
}

/// The value and its interval, such as "0.912 [0.901, 0.923]", rounded to the second significant
/// digit of half the interval's width; to four digits if half the width is below 1e-7, or if a
/// number is at least 1e9.
std::string with_interval(double value, const std::array<double, 2>& ends);

/// A whole number with all of its digits.
inline std::string whole(double value) { return core::short_number(value, 15); }

}  // namespace privgrad::report
