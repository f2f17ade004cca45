#include "privgrad/record/short_numbers.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace privgrad::core {
namespace {

double number_of(const std::string& text) {
  double value = std::numeric_limits<double>::quiet_NaN();
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// \param unit  one unit of the last digit that is written.
std::string never_below(double value, double unit, std::chars_format format, int precision) {
  // Rounding to nearest lowers a number by at most half a unit of the last digit.
  std::string text = number_text(value, format, precision);
  for (double nudged = value; number_of(text) < value;) {
    nudged += 0.5 * unit;
    text = number_text(nudged, format, precision);
  }
  return text;
}

std::string negated(const std::string& text) {
  return text.starts_with('-') ? text.substr(1) : "-" + text;
}

}  // namespace

// Does not use <cstdio>, because its decimal point depends on the locale of the process.

std::string number_text(double value, std::chars_format format, int precision) {
  std::array<char, 400> text{};  // a double has at most 309 digits before its point
  const auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), value, format, precision);
  return error == std::errc{} ? std::string(text.data(), end) : std::string("?");
}

std::string short_number(double value, int digits) {
  return number_text(value, std::chars_format::general, digits);
}

std::string short_range(double low, double high, int digits) {
  const std::string from = short_number(low, digits);
  const std::string to = short_number(high, digits);
  return from == to ? from : from + " to " + to;
}

std::string short_bound(double value, int digits) {
  if (!std::isfinite(value) || value == 0.0) return short_number(value, digits);
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) + 1 - digits);
  return never_below(value, unit, std::chars_format::general, digits);
}

std::string short_lower_bound(double value, int digits) {
  return value == 0.0 ? short_number(value, digits) : negated(short_bound(-value, digits));
}

std::string fixed_bound(double value, int decimals) {
  return never_below(value, std::pow(10.0, -decimals), std::chars_format::fixed, decimals);
}

std::string fixed_lower_bound(double value, int decimals) {
  return negated(fixed_bound(-value, decimals));
}

}  // namespace privgrad::core
