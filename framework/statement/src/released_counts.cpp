#include "privgrad/statement/released_counts.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "privgrad/error.hpp"

namespace privgrad::core {

using Json = nlohmann::json;

namespace {

constexpr double kMostRows = 0x1p53;

}  // namespace

double divisor_of(const Plan& plan, const ReleasedCounts& counts) {
  if (counts.rows) return static_cast<double>(*counts.rows);
  if (plan.manifest->size_noise)
    throw PrivacyError("a mean is about to be released before the number of rows that divides it");
  return static_cast<double>(plan.dataset_size);
}

std::vector<double> class_weights_of(const Plan& plan, const ReleasedCounts& counts) {
  const std::optional<double> largest = plan.manifest->largest_class_weight;
  if (!largest || counts.classes.empty()) return {};
  std::vector<double> weights = counts.classes;
  double sum = 0.0;
  for (double& count : weights) {
    count = std::clamp(count, 1.0, kMostRows);
    sum += count;
  }
  const double mean = sum / static_cast<double>(weights.size());
  for (double& weight : weights) weight = std::min(mean / weight, *largest);
  return weights;
}

std::uint64_t count_of_rows(float noised) {
  return static_cast<std::uint64_t>(
      std::clamp(std::round(static_cast<double>(noised)), 1.0, kMostRows));
}

std::optional<ReportedFacts> reported_facts(const Plan& plan, const ReleasedCounts& counts) {
  ReportedFacts facts;
  for (const PlannedStatistic& one : plan.statistics) {
    if (one.of == StatisticOf::transform) continue;
    // A count has the bound 1, so the noise multiplier is the standard deviation, in rows.
    ReleasedCount count{.noise_stddev = one.noise_multiplier};
    if (one.share > 0.0) count.share = one.share;
    if (one.of == StatisticOf::rows) {
      if (counts.rows) count.value = *counts.rows;
      facts.rows = std::move(count);
    } else {
      if (!counts.classes.empty()) count.value = counts.classes;
      count.weights = class_weights_of(plan, counts);
      facts.class_counts = std::move(count);
    }
  }
  for (const ReleasedStatistic& one : counts.statistics)
    facts.statistics.push_back({one.transform, one.values, one.noise_stddev});
  const bool has_any = facts.rows || facts.class_counts || !facts.statistics.empty();
  return has_any ? std::optional(std::move(facts)) : std::nullopt;
}

namespace {

const Json& value_of(const Json& reported, const char* key) {
  if (reported.is_object() && reported.contains(key)) {
    const Json& count = reported.at(key);
    if (count.is_object() && count.contains("value")) return count.at("value");
  }
  throw IoError(std::string("has no reported.") + key + ".value, which the plan releases");
}

bool are_numbers(const Json& list, std::size_t size) {
  return list.is_array() && list.size() == size &&
         std::all_of(list.begin(), list.end(), [](const Json& x) { return x.is_number(); });
}

/// \param next  the index of the statistic in `reported.statistics`.
ReleasedStatistic statistic_from(const Json& reported, const PlannedStatistic& planned,
                                 std::size_t next) {
  const Json list = reported.is_object() ? reported.value("statistics", Json()) : Json();
  const std::string where = "reported.statistics[" + std::to_string(next) + "]";
  if (!list.is_array() || list.size() <= next || !list[next].is_object())
    throw IoError("has no " + where + ", which the plan releases");
  const Json value = list[next].value("value", Json());
  const Json stddev = list[next].value("noise_stddev", Json());
  if (list[next].value("transform", Json()) != planned.transform ||
      !are_numbers(value, planned.size) || !stddev.is_number())
    throw IoError("has a " + where + " that is not the numbers of transform " +
                  std::to_string(planned.transform));
  return {planned.transform, value.get<std::vector<float>>(), stddev.get<double>()};
}

}  // namespace

ReleasedCounts counts_from_json(const PlanNumbers& plan, const Json& reported) {
  ReleasedCounts counts;
  for (const PlannedStatistic& one : plan.statistics) {
    if (one.of == StatisticOf::rows) {
      const Json& value = value_of(reported, "rows");
      if (!value.is_number_unsigned() || value < 1 || value > kMostRows)
        throw IoError("has a reported.rows.value that is not a number of rows");
      counts.rows = value.get<std::uint64_t>();
    } else if (one.of == StatisticOf::classes) {
      const Json& value = value_of(reported, "class_counts");
      if (!are_numbers(value, one.size))
        throw IoError("has a reported.class_counts.value that is not a number for each class");
      counts.classes = value.get<std::vector<double>>();
    } else if (one.size <= kMostRecordedNumbers) {
      counts.statistics.push_back(statistic_from(reported, one, counts.statistics.size()));
    }
  }
  return counts;
}

}  // namespace privgrad::core
