#include "privgrad/trust/separation.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "privgrad/error.hpp"
#include "windowed_cost.hpp"

namespace privgrad::core {
namespace {

/// The smallest and the largest entry of -L at one distance from the diagonal.
struct Range {
  double least = std::numeric_limits<double>::infinity();
  double most = -least;

  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  bool is_empty() const { return least > most; }
};

enum class Side { rows = 1, columns };

/// Returns the ranges of N_{t,t-j} divided by N_tt, or by N_{t-j,t-j}, for all j in [1, window].
std::vector<Range> ranges_of(const CorrelatedRecipes& recipes, Side side) {
  std::vector<Range> ranges(recipes.window() + 1);
  std::vector<double> entries;
  for (std::uint64_t step = 0; step < recipes.steps(); ++step) {
    const std::uint64_t most_age = std::min(step, recipes.window());
    entries.assign(most_age + 1, 0.0);
    for (const NoiseTerm& term : recipes.noise(step).subspan(1))
      entries[recipes.age(step, term)] = term.multiplier;
    for (std::uint64_t age = 1; age <= most_age; ++age) {
      const std::uint64_t own = side == Side::rows ? step : step - age;
      ranges[age].add(entries[age] / recipes.own_multiplier(own));
    }
  }
  return ranges;
}

/// Returns, by distance d to the diagonal, the bounds |c_d| + e_d on the absolute values of C's
/// entries times the least entry of D.
std::vector<double> sizes_of_inverse(std::span<const Range> ranges, std::uint64_t steps) {
  // Covers the rounding of an entry's quotient, kSameFactor in its numerator and denominator, and
  // the rounding of l_j and of w_j.
  constexpr double kOff = 8.0 * kSameFactor;
  const std::size_t window = ranges.size() - 1;
  std::vector<double> middle(window + 1, 0.0), width(window + 1, 0.0);
  for (std::size_t j = 1; j <= window; ++j) {
    if (ranges[j].is_empty()) continue;
    const auto [least, most] = ranges[j];
    middle[j] = -(least / 2.0 + most / 2.0);
    width[j] = (most / 2.0 - least / 2.0) + kOff * std::max(std::fabs(least), std::fabs(most));
  }
  // Covers sums of at most `window` products each, and two more operations.
  const double rounding = 0x1p-52 * static_cast<double>(window + 3);
  std::vector<double> entries(steps, 0.0), errors(steps, 0.0), sizes(steps, 0.0);
  entries[0] = sizes[0] = 1.0;
  for (std::uint64_t d = 1; d < steps; ++d) {
    double all = 0.0;
    for (std::size_t j = 1; j <= std::min<std::uint64_t>(window, d); ++j) {
      const double older = std::fabs(entries[d - j]);
      entries[d] += middle[j] * entries[d - j];
      all += std::fabs(middle[j]) * older;
      errors[d] += (std::fabs(middle[j]) + width[j]) * errors[d - j] + width[j] * older;
    }
    // covers underflow
    errors[d] = (errors[d] + rounding * all) * (1.0 + 4.0 * rounding) + 0x1p-1000;
    const double size = (std::fabs(entries[d]) + errors[d]) * (1.0 + 0x1p-50);
    sizes[d] = std::isfinite(size) ? size : std::numeric_limits<double>::infinity();
  }
  return sizes;
}

/// Replaces the column by the smallest non-increasing column that is nowhere below it.
void make_decreasing(std::span<double> column) {
  for (std::size_t d = column.size() - 1; d-- > 0;) column[d] = std::max(column[d], column[d + 1]);
}

void refuse_long_work(std::uint64_t steps, const Separation& rule) {
  constexpr double kMostWork = 0x1p36;
  const double work = static_cast<double>(steps) * static_cast<double>(rule.most_of(steps));
  if (work <= kMostWork) return;
  throw ConfigError(
      "the cost of " + std::to_string(steps) + " rounds, of which a client takes part in " +
      std::to_string(rule.most_of(steps)) +
      ", takes too long to compute; give a larger min_separation, or max_participations");
}

}  // namespace

std::uint64_t Separation::most_of(std::uint64_t rounds) const {
  const std::uint64_t gap = std::min(min_separation, rounds) + 1;
  return std::min(max_participations, (rounds + gap - 1) / gap);
}

std::vector<double> worst_squared_sensitivities_of_decreasing(std::span<const double> first_column,
                                                              const Separation& rule) {
  const auto is_good = [](double value) { return value >= 0.0 && std::isfinite(value); };
  if (!std::ranges::all_of(first_column, is_good) ||
      !std::ranges::is_sorted(first_column, std::greater<>()))
    throw ConfigError("the first column has to be finite, not negative and not increasing");
  const std::uint64_t steps = first_column.size(), most = rule.most_of(steps);
  const std::uint64_t gap = std::min(rule.min_separation, steps) + 1;
  std::vector<double> after;
  after.reserve(steps);
  long double sum = 0.0L;
  for (std::uint64_t row = 0; row < steps; ++row) {
    long double change = 0.0L;
    for (std::uint64_t m = 0; m < most && m * gap <= row; ++m)
      change += static_cast<long double>(first_column[row - m * gap]);
    sum += change * change;
    after.push_back(static_cast<double>(sum));
  }
  return after;
}

CorrelatedCost separated_cost(const CorrelatedRecipes& recipes, const Separation& rule) {
  if (recipes.window() == 0)
    throw ConfigError("a minimum separation is proved only for releases with a window of noise");
  const std::uint64_t steps = recipes.steps();
  refuse_long_work(steps, rule);
  double least = recipes.own_multiplier(0);
  for (std::uint64_t step = 1; step < steps; ++step)
    least = std::min(least, recipes.own_multiplier(step));
  CorrelatedCost cost;
  for (const Side side : {Side::rows, Side::columns}) {
    std::vector<double> sizes = sizes_of_inverse(ranges_of(recipes, side), steps);
    make_decreasing(sizes);
    if (!std::isfinite(sizes.front())) continue;
    std::vector<double> after = worst_squared_sensitivities_of_decreasing(sizes, rule);
    if (cost.worst_after.empty() || after.back() < cost.worst_after.back())
      cost.worst_after = std::move(after);
  }
  // Covers rounding in the sums and in this function, and kSameFactor in the square of `least`.
  const double room = 1.0 + static_cast<double>(steps + 16) * 0x1p-50 + 4.0 * kSameFactor;
  for (double& worst : cost.worst_after) worst = worst / least / least * room;
  if (cost.worst_after.empty() || !std::isfinite(cost.worst_after.back())) {
    throw ConfigError(
        "no finite cost is proved for this noise with clients that take part whenever they may; "
        "use coefficients that are not above 0 behind the first");
  }
  cost.of_groups = {cost.worst_after.back()};
  cost.is_attained = false;
  return cost;
}

SeparationWatch::SeparationWatch(const Separation& rule, std::size_t clients)
    : rule_(rule), last_(clients, 0), count_(clients, 0) {}

std::string SeparationWatch::why_not(std::uint32_t client, std::uint64_t round) const {
  if (client >= last_.size())
    throw PrivacyError("client " + std::to_string(client) + " takes part, and does not exist");
  if (count_[client] >= rule_.max_participations)
    return "it has been in all " + std::to_string(rule_.max_participations) +
           " rounds that it may (federated.max_participations)";
  if (last_[client] == 0 || round - last_[client] >= rule_.min_separation) return "";
  return "it comes early to round " + std::to_string(round + 1) + ", was in round " +
         std::to_string(last_[client]) + ", and may come again from round " +
         std::to_string(last_[client] + rule_.min_separation + 1) +
         " on (federated.min_separation)";
}

void SeparationWatch::take_part(std::uint64_t round, std::span<const std::uint32_t> clients) {
  const auto refuse = [&](const std::string& why) {
    throw PrivacyError("the rounds of clients break the rule that they are charged by: " + why);
  };
  if (round < next_round_) refuse("round " + std::to_string(round + 1) + " comes again");
  std::vector<bool> seen(last_.size(), false);
  for (const std::uint32_t client : clients) {
    const std::string who = "client " + std::to_string(client) + ": ";
    if (const std::string why = why_not(client, round); !why.empty()) refuse(who + why);
    if (seen[client]) refuse(who + "it comes twice");
    seen[client] = true;
  }
  next_round_ = round + 1;
  for (const std::uint32_t client : clients) {
    last_[client] = round + 1;
    ++count_[client];
  }
}

void SeparationWatch::save(StateWriter& out) const {
  out.begin("separation watch");
  out.put(rule_.max_participations, rule_.min_separation, next_round_, last_, count_);
}

void SeparationWatch::restore(StateReader& in) {
  in.begin("separation watch");
  Separation rule;
  std::vector<std::uint64_t> last, count;
  in.get(rule.max_participations, rule.min_separation, next_round_, last, count);
  const bool is_fit =
      rule == rule_ && last.size() == last_.size() && count.size() == count_.size() &&
      std::ranges::all_of(last, [&](std::uint64_t at) { return at <= next_round_; });
  if (!is_fit) in.fail("its rounds of clients are of another rule");
  last_ = std::move(last);
  count_ = std::move(count);
}

}  // namespace privgrad::core
