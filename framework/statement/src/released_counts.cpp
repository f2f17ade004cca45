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

std::uint64_t count_of_rows(float noised) {
  return static_cast<std::uint64_t>(
      std::clamp(std::round(static_cast<double>(noised)), 1.0, kMostRows));
}

Json to_json(const Plan& plan, const ReleasedCounts& counts) {
  Json json = Json::object();
  for (const PlannedStatistic& one : plan.statistics) {
    if (one.of == StatisticOf::transform) continue;
    // With a bound of 1 the noise multiplier is the standard deviation, in rows.
    Json count{{"noise_stddev", one.noise_multiplier},
               {"share", one.share > 0.0 ? Json(one.share) : Json(nullptr)}};
    if (one.of == StatisticOf::rows) {
      if (counts.rows) count["value"] = *counts.rows;
      json["rows"] = std::move(count);
    } else {
      if (!counts.classes.empty()) count["value"] = counts.classes;
      json["class_counts"] = std::move(count);
    }
  }
  return json;
}

namespace {

const Json& value_of(const Json& reported, const char* key) {
  if (reported.is_object() && reported.contains(key)) {
    const Json& count = reported.at(key);
    if (count.is_object() && count.contains("value")) return count.at("value");
  }
  throw IoError(std::string("has no reported.") + key + ".value, which the plan releases");
}

}  // namespace

ReleasedCounts counts_from_json(const Plan& plan, const Json& reported) {
  ReleasedCounts counts;
  for (const PlannedStatistic& one : plan.statistics) {
    if (one.of == StatisticOf::rows) {
      const Json& value = value_of(reported, "rows");
      if (!value.is_number_unsigned() || value < 1 || value > kMostRows)
        throw IoError("has a reported.rows.value that is not a number of rows");
      counts.rows = value.get<std::uint64_t>();
    } else if (one.of == StatisticOf::classes) {
      const Json& value = value_of(reported, "class_counts");
      if (!value.is_array() || value.size() != one.size ||
          !std::all_of(value.begin(), value.end(), [](const Json& x) { return x.is_number(); }))
        throw IoError("has a reported.class_counts.value that is not a number for each class");
      counts.classes = value.get<std::vector<double>>();
    }
  }
  return counts;
}

}  // namespace privgrad::core
