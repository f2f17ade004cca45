#include "replayed_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "privgrad/bounded_statistic.hpp"
#include "privgrad/error.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/train/statistic_releases.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/grid.hpp"
#include "privgrad/trust/longest_stay.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/value.hpp"
#include "same_bits.hpp"

namespace privgrad::core {
namespace {

ReleaseSeen::What seen_as(StatisticOf of) {
  switch (of) {
    case StatisticOf::rows:
      return ReleaseSeen::What::rows;
    case StatisticOf::classes:
      return ReleaseSeen::What::classes;
    case StatisticOf::transform:
      break;
  }
  return ReleaseSeen::What::statistic;
}

/// "statistic of transform 2", "statistic of data.size"
std::string words_for(const PlannedStatistic& one) {
  return "statistic of " + (one.of == StatisticOf::transform
                                ? "transform " + std::to_string(one.transform)
                                : one.name);
}

const RecordedRelease& recorded(const RecordedRun& run, const PlannedStatistic& one) {
  const RecordedRelease* found = run.find(name_of(one));
  if (found != nullptr && !found->own.empty()) return *found;
  throw PrivacyError("the " + words_for(one) + " was not released");
}

/// A row's contribution, clipped to the bound, in cells.
std::vector<std::int32_t> in_cells(std::span<const float> made, double bound) {
  std::vector<std::int32_t> cells(made.size(), 0);
  if (!all_finite(made)) return cells;
  const LongestStay rule;
  const std::vector<ParameterGroup> groups{{"statistic", 0, made.size()}};
  const Clip clip{.rule = rule, .groups = groups, .clip_norm = bound, .count_share = 0.0};
  const double norm = squared_norm_at_most(made);
  double factor = 0.0;
  clip_factors(clip, {&norm, 1}, {&factor, 1});
  round_to_grid(made, groups, {&factor, 1}, bound, kExactLevels, cells);
  return cells;
}

/// Returns one row's contribution in cells, computed separately from other rows.
std::vector<std::int32_t> cells_of(const PlannedStatistic& planned, const BoundedStatistic& learner,
                                   const Dataset& train, std::uint32_t row) {
  std::vector<float> features(train.row_size()), target(1), made(planned.size);
  train.gather({&row, 1}, features, target);
  learner.contribution(train.shape().features, features, made);
  return in_cells(made, planned.l2_bound);
}

}  // namespace

void ReplayedStatistics::teach(std::size_t number, Transform& transform, const Dataset& train) {
  const auto planned = std::ranges::find_if(plan_.statistics, [&](const auto& one) {
    return one.of == StatisticOf::transform && one.transform == number;
  });
  const ComponentPtr<Transform> shown_rows = plan_.manifest->transforms[number].make<Transform>();
  const auto* contributes = dynamic_cast<const BoundedStatistic*>(shown_rows.get());
  auto* learner = dynamic_cast<BoundedStatistic*>(&transform);
  if (planned == plan_.statistics.end() || learner == nullptr || contributes == nullptr)
    throw PrivacyError("transform " + std::to_string(number) + " has no planned statistic");
  Cells& made = cells_[{StatisticOf::transform, number}];
  made.all.assign(planned->size, 0);
  made.last.assign(planned->size, 0);
  for (std::uint32_t row = 0; row < train.rows(); ++row) {
    const std::vector<std::int32_t> cells = cells_of(*planned, *contributes, train, row);
    for (std::size_t i = 0; i < cells.size(); ++i) made.all[i] += cells[i];
    if (row == last_) made.last.assign(cells.begin(), cells.end());
  }
  learner->learn(train.shape(), recorded(first_, *planned).own.front());
}

void ReplayedStatistics::count(const Dataset& train) {
  const float once = 1.0f;
  const std::int64_t cells_of_one = in_cells({&once, 1}, 1.0).front();
  for (const PlannedStatistic& one : plan_.statistics) {
    if (one.of == StatisticOf::transform) continue;
    Cells& made = cells_[{one.of, 0}];
    made.all.assign(one.size, 0);
    made.last.assign(one.size, 0);
    for (std::uint32_t row = 0; row < train.rows(); ++row) {
      std::size_t place = 0;
      if (one.of == StatisticOf::classes) {
        while (place < one.size && static_cast<float>(place) != train.targets()[row]) ++place;
      }
      if (place == one.size) continue;
      made.all[place] += cells_of_one;
      if (row == last_) made.last[place] += cells_of_one;
    }
  }
}

double divisor_of(std::uint64_t dataset_size, const RecordedRun& run) {
  const RecordedRelease* rows = run.find({.what = ReleaseSeen::What::rows});
  if (rows == nullptr) return static_cast<double>(dataset_size);
  const double noised = rows->own.front().values().front();
  return std::max(1.0, std::floor(noised + 0.5));
}

std::vector<double> class_weights_of(const Plan& plan, const RecordedRun& run) {
  const RecordedRelease* classes = run.find({.what = ReleaseSeen::What::classes});
  if (classes == nullptr) return {};
  const std::span<const float> counts = classes->own.front().values();
  ReleasedCounts released;
  released.classes.assign(counts.begin(), counts.end());
  return class_weights_of(plan, released);
}

ReleaseName name_of(const PlannedStatistic& statistic) {
  return {.client = std::nullopt, .what = seen_as(statistic.of), .step = statistic.transform};
}

std::vector<float> release_again(const PlannedStatistic& statistic, std::vector<std::int64_t> cells,
                                 const RandomKey& run_key, double divisor) {
  const double sigma = statistic.noise_multiplier * static_cast<double>(kExactLevels);
  const unsigned shift = release_shift(sigma);
  const RandomKey key = noise_key_of(statistic.of, run_key.derive(kStatisticPurpose));
  RoundedGaussianStream(key, statistic.transform).release(0, sigma, shift, cells, cells);
  const double width = statistic.l2_bound / static_cast<double>(kExactLevels);
  const double coarse = std::ldexp(width, static_cast<int>(shift)) / divisor;
  std::vector<float> released;
  released.reserve(cells.size());
  for (const std::int64_t cell : cells)
    released.push_back(static_cast<float>(static_cast<double>(cell) * coarse));
  return released;
}

std::optional<std::string> difference_of_statistics(
    const PlanNumbers& plan, const RandomKey& run_key, const ReplayedStatistics& here,
    const ReplayedStatistics& there, const RecordedRun& first, const RecordedRun& other) {
  const double of_means = divisor_of(plan.dataset_size, first);
  for (const PlannedStatistic& one : plan.statistics) {
    const ReplayedStatistics::Name name{one.of, one.transform};
    const double divisor = one.of == StatisticOf::transform ? of_means : 1.0;
    const ReplayedStatistics::Cells& in_here = here.cells().at(name);
    // Takes the other rows' contributions from the first world, because they must not have changed.
    std::vector<std::int64_t> in_there = in_here.all;
    const std::vector<std::int64_t>& last_there = there.cells().at(name).last;
    for (std::size_t i = 0; i < in_there.size(); ++i)
      in_there[i] += last_there[i] - in_here.last[i];
    const auto differs = [&](const RecordedRun& run, std::vector<std::int64_t> cells,
                             const char* whose) -> std::optional<std::string> {
      const std::vector<float> expected = release_again(one, std::move(cells), run_key, divisor);
      const std::span<const float> found = recorded(run, one).own.front().values();
      if (same_bits(expected, found)) return std::nullopt;
      std::size_t i = 0;
      while (i < expected.size() && i < found.size() &&
             same_bits({&expected[i], 1}, {&found[i], 1}))
        ++i;
      const std::string is = i < found.size() ? format_number(found[i]) : "missing";
      return "number " + std::to_string(i) + " of the " + words_for(one) + whose + " is " + is +
             "; recomputed from the rows, the noise and the divisor: " +
             (i < expected.size() ? format_number(expected[i]) : "nothing");
    };
    if (auto found = differs(first, in_here.all, "")) return found;
    if (auto found = differs(other, std::move(in_there), " of the neighbour")) return found;
  }
  return std::nullopt;
}

}  // namespace privgrad::core
