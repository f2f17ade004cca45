#include "interval.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

#include "privgrad/trust/short_numbers.hpp"

namespace privgrad::report {

MeanInterval mean_interval(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() < 2) return {mean, {}};
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / (count - 1.0));
  const boost::math::students_t distribution(count - 1.0);
  return {mean, boost::math::quantile(distribution, 0.975) * deviation / std::sqrt(count)};
}

std::string range_of(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return core::short_range(*least, *most, 15);
}

}  // namespace privgrad::report
