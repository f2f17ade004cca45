#include "axis.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "privgrad/record/short_numbers.hpp"

namespace privgrad::report {
namespace {

using core::number_text;
using core::short_number;

// Numbers from kSmallestPlain to below kLargestPlain are written without an exponent.
constexpr double kSmallestPlain = 1e-3, kLargestPlain = 1e6;

std::string label_of(double value, int decimals) {
  const double size = std::fabs(value);
  if (size == 0.0 && decimals > 3) return "0";  // the labels beside it have exponents
  if (size != 0.0 && (size < kSmallestPlain || size >= kLargestPlain))
    return short_number(value, 3);
  return number_text(value, std::chars_format::fixed, decimals);
}

}  // namespace

Axis::Axis(double low, double high, bool logarithmic, std::size_t most_ticks)
    : low_(low),
      high_(high),
      logarithmic_(logarithmic && low >= std::numeric_limits<double>::min()) {
  if (low_ == high_) {
    const double room = low_ == 0.0 ? 1.0 : 0.1 * std::fabs(low_);
    low_ -= room;
    high_ += room;
  }
  if (logarithmic_) {
    tick_logarithmically(most_ticks);
  } else {
    tick_linearly(most_ticks);
  }
}

void Axis::tick_at(const std::vector<double>& values) {
  ticks_.clear();
  for (const double value : values)
    if (value >= low_ && value <= high_) ticks_.push_back({value, short_number(value, 6)});
}

void Axis::tick_by_name(const std::vector<std::string>& names) {
  ticks_.clear();
  for (std::size_t i = 0; i < names.size(); ++i)
    ticks_.push_back({static_cast<double>(i), names[i]});
}

double Axis::share(double value) const {
  // Halves the numbers of a linear axis, so that their differences stay finite.
  const auto place = [&](double x) { return logarithmic_ ? std::log(x) : 0.5 * x; };
  if (logarithmic_ && value <= low_) return 0.0;
  const double share = (place(value) - place(low_)) / (place(high_) - place(low_));
  return share > 0.0 ? std::min(share, 1.0) : 0.0;  // NaN, from a subnormal range, gives 0
}

void Axis::tick_linearly(std::size_t most) {
  const double least = (high_ - low_) / static_cast<double>(most);
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  double step = 10.0 * power;
  for (const double round : {5.0, 2.0, 1.0})
    if (round * power >= least) step = round * power;
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  const double slack = 1e-9 * step, first = std::ceil((low_ - slack) / step);
  // Computes each tick from its index, because adding `step` may not change a very large tick.
  for (std::size_t i = 0; i <= 2 * most; ++i) {
    const double value = (first + static_cast<double>(i)) * step;
    if (value > high_ + slack) break;
    ticks_.push_back({value, label_of(value + 0.0, decimals)});
  }
}

void Axis::tick_logarithmically(std::size_t most) {
  // Tries powers of ten with two, one or no ticks between them, until the ticks fit.
  constexpr std::array<std::array<double, 3>, 3> kRounds{{{1, 2, 5}, {1, 3, 1}, {1, 1, 1}}};
  for (const auto& rounds : kRounds) {
    ticks_.clear();
    double power = std::pow(10.0, std::floor(std::log10(low_)));
    while (power <= high_) {
      double before = 0.0;
      for (const double round : rounds) {
        const double value = round * power;
        if (value >= low_ * (1 - 1e-9) && value <= high_ * (1 + 1e-9) && round > before)
          ticks_.push_back({value, short_number(value, 6)});
        before = round;
      }
      power *= 10.0;
    }
    if (ticks_.size() <= most + 2) return;
  }
}

}  // namespace privgrad::report
