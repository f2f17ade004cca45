#include "conversion.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>

namespace rdp {
namespace {

constexpr double kUlp = std::numeric_limits<double>::epsilon();

// The margin for rounding, in ulps of the sum of the terms' absolute values. It is enough because
// each bound is a sum of at most five terms, each accurate to a few ulps.
constexpr double kRoundings = 16.0;

constexpr double kCellsPerDoubling = 1024.0;
constexpr std::int64_t kOutermostCell = std::int64_t{20} * 1024;

double order_of_cell(std::int64_t cell) {
  return 1.0 + std::exp2(static_cast<double>(cell) / kCellsPerDoubling);
}

/// Returns where a function that decreases and then increases has its minimum on [lo, hi].
template <class Function>
std::int64_t bisect(std::int64_t lo, std::int64_t hi, const Function& f) {
  while (lo < hi) {
    const std::int64_t middle = lo + (hi - lo) / 2;
    if (f(middle) <= f(middle + 1)) {
      hi = middle;
    } else {
      lo = middle + 1;
    }
  }
  return lo;
}

}  // namespace

double epsilon_at(Conversion conversion, double order, double log_moment, double delta) {
  const double excess = order - 1.0;
  const double divergence = log_moment / excess;
  const double tail = -std::log(delta) / excess;
  if (conversion == Conversion::classic) {
    return divergence + tail + kRoundings * kUlp * (divergence + tail);
  }
  const double shrink = std::log1p(1.0 / excess);  // -ln(1 - 1/a)
  const double order_term = std::log1p(excess) / excess;
  return divergence - shrink + tail - order_term +
         kRoundings * kUlp * (divergence + shrink + tail + order_term);
}

double log_delta_at(Conversion conversion, double order, double log_moment, double epsilon) {
  const double excess = order - 1.0;
  const double allowed = excess * epsilon;
  if (conversion == Conversion::classic) {
    return log_moment - allowed + kRoundings * kUlp * (log_moment + allowed);
  }
  // (a-1) ln(a-1) - a ln a, rewritten to avoid cancellation for large a.
  const double shrink = excess * std::log1p(1.0 / excess);
  const double order_term = std::log1p(excess);
  return log_moment - allowed - shrink - order_term +
         kRoundings * kUlp * (log_moment + allowed + shrink + order_term);
}

Best least(const Orders& orders, const std::function<double(double)>& bound) {
  std::map<double, double> known;
  const auto value = [&](double order) {
    const auto found = known.find(order);
    return found != known.end() ? found->second : known.emplace(order, bound(order)).first->second;
  };
  const auto last = static_cast<std::int64_t>(orders.list.size()) - 1;
  const auto listed = [&](std::int64_t i) { return orders.list[static_cast<std::size_t>(i)]; };
  std::int64_t index = 0;
  if (orders.unimodal) {
    index = bisect(0, last, [&](std::int64_t i) { return value(listed(i)); });
  } else {
    for (std::int64_t i = 1; i <= last; ++i) {
      if (value(listed(i)) < value(listed(index))) index = i;
    }
  }
  Best best{.value = value(listed(index)),
            .order = listed(index),
            .at_low_edge = index == 0,
            .at_high_edge = index == last};
  if (!orders.refine) return best;
  const auto cell_of = [](double order) { return kCellsPerDoubling * std::log2(order - 1.0); };
  const bool beyond = orders.unimodal;
  std::int64_t low = -kOutermostCell;
  if (index > 0) low = static_cast<std::int64_t>(std::floor(cell_of(listed(index - 1))));
  std::int64_t high = kOutermostCell;
  if (index < last || !beyond) {
    const std::int64_t next = std::min(index + 1, last);
    high = static_cast<std::int64_t>(std::ceil(cell_of(listed(next))));
  }
  low = std::clamp(low, -kOutermostCell, kOutermostCell);
  high = std::clamp(high, low, kOutermostCell);
  const std::int64_t cell =
      bisect(low, high, [&](std::int64_t k) { return value(order_of_cell(k)); });
  const double refined = value(order_of_cell(cell));
  if (refined < best.value) {
    best = {.value = refined,
            .order = order_of_cell(cell),
            .at_low_edge = cell == -kOutermostCell,
            .at_high_edge = cell == high && index == last};
  }
  return best;
}

}  // namespace rdp
