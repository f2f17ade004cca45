#include "privgrad/trust/short_numbers.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace privgrad::core {

std::string short_number(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::string short_range(double low, double high, int digits) {
  const std::string from = short_number(low, digits);
  const std::string to = short_number(high, digits);
  return from == to ? from : from + " to " + to;
}

std::string short_bound(double value, int digits) {
  std::string text = short_number(value, digits);
  if (!std::isfinite(value) || value == 0.0) return text;
  // Half a unit of the last digit is the most that rounding to nearest can take away.
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) + 1 - digits);
  for (double nudged = value; std::strtod(text.c_str(), nullptr) < value;) {
    nudged += 0.5 * unit;
    text = short_number(nudged, digits);
  }
  return text;
}

std::string short_lower_bound(double value, int digits) {
  if (value == 0.0) return short_number(value, digits);
  const std::string negated = short_bound(-value, digits);
  return negated.starts_with('-') ? negated.substr(1) : "-" + negated;
}

}  // namespace privgrad::core
