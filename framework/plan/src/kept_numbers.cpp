#include "privgrad/plan/kept_numbers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {
namespace {

/// Relative tolerance for rounding errors: at worst, half of a value's digits are right.
constexpr double kRoundings = 1e-6;

/// The relative difference; 0 for equal numbers.
double distance(double a, double b) {
  return a == b ? 0.0 : std::abs(a - b) / std::max(std::abs(a), std::abs(b));
}

}  // namespace

KeptNumbers::Schedule KeptNumbers::Schedule::of(const std::string& slot,
                                                const std::vector<double>& values) {
  const bool is_constant =
      std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end();
  return {slot, values.size(), is_constant ? std::vector{values.front()} : values};
}

double KeptNumbers::Schedule::distance_to(const std::vector<double>& others) const {
  if (others.size() != steps) return std::numeric_limits<double>::infinity();
  double most = 0.0;
  for (std::size_t i = 0; i < others.size(); ++i)
    most = std::max(most, distance(others[i], distinct[std::min(i, distinct.size() - 1)]));
  return most;
}

std::vector<double> KeptNumbers::Schedule::values() const {
  return distinct.size() == 1 ? std::vector<double>(steps, distinct.front()) : distinct;
}

KeptNumbers::KeptNumbers(std::vector<double> scales, std::vector<double> optimized,
                         std::string_view schedules)
    : is_made_again_(true), kept_(std::move(scales)), optimized_(std::move(optimized)) {
  for (const double scale : kept_) {
    if (!std::isfinite(scale) || scale <= 0.0)
      throw ConfigError("has a scale that is not above 0 and finite");
  }
  for (const double number : optimized_) {
    if (!std::isfinite(number))
      throw ConfigError("has a number of the aggregator that is not finite");
  }
  if (schedules.empty()) return;
  StateReader in(schedules, "what was kept of the schedules");
  in.begin("schedules");
  in.get(schedules_);
  for (const Schedule& one : schedules_) {
    if (one.distinct.empty() || (one.distinct.size() != 1 && one.distinct.size() != one.steps))
      in.fail("a schedule does not have as many values as there are steps");
  }
  in.end();
}

double KeptNumbers::scale(const std::function<double()>& search) {
  if (is_made_again_ && used_.size() == kept_.size()) {
    throw ConfigError("has " + std::to_string(kept_.size()) +
                      " scale(s), and the plan needs more: it is not of this manifest");
  }
  used_.push_back(is_made_again_ ? kept_[used_.size()] : search());
  return used_.back();
}

const std::vector<double>& KeptNumbers::optimized(
    const std::function<std::vector<double>()>& search) {
  if (!is_made_again_ && optimized_.empty()) optimized_ = search();
  return optimized_;
}

std::vector<double> KeptNumbers::schedule(const std::string& slot, std::vector<double> values) {
  const Schedule* nearest = nullptr;
  double least = is_made_again_ ? kRoundings : 0.0;
  for (const Schedule& one : schedules_) {
    if (one.slot != slot) continue;
    const double distance = one.distance_to(values);
    if (distance > least) continue;
    nearest = &one;
    least = distance;
  }
  if (nearest != nullptr) return nearest->values();
  if (!is_made_again_ && !values.empty()) schedules_.push_back(Schedule::of(slot, values));
  return values;
}

std::string KeptNumbers::schedules_text() const {
  StateWriter out;
  out.begin("schedules");
  out.put(schedules_);
  return out.text();
}

}  // namespace privgrad::core
