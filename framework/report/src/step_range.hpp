#pragma once

#include <optional>
#include <string>
#include <vector>

namespace privgrad::report {

/// A mean with its 95 % confidence interval, for independent values of one normal distribution:
/// mean +- t s / sqrt(n), with Student's t at n - 1 degrees of freedom.
struct MeanInterval {
  double mean = 0.0;
  std::optional<double> half_width;  ///< Nothing for a single value.
};

/// \pre `values` is not empty.
MeanInterval mean_interval(const std::vector<double>& values);

/// Whole numbers, as "12", or "11 to 12" where they differ. \pre `values` is not empty.
std::string range_of(const std::vector<double>& values);

}  // namespace privgrad::report
