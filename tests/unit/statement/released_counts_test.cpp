#include "privgrad/statement/released_counts.hpp"

#include <nlohmann/json.hpp>

#include "counted_manifest.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/record/facts.hpp"

using namespace privgrad;
using core::PlannedStatistic;
using core::ReleasedCounts;
using core::StatisticOf;
using Json = nlohmann::json;

namespace {

/// A plan that releases the number of rows, the numbers of two classes, and two means.
struct Counting3 {
  core::Manifest manifest = counted();
  core::Plan plan;

  Counting3() {
    plan.manifest = &manifest;
    plan.dataset_size = 100;
    plan.statistics = {planned(StatisticOf::rows, 1), planned(StatisticOf::classes, 2),
                       planned(StatisticOf::transform, 2)};
    plan.statistics.front().share = 0.25;
  }
  static PlannedStatistic planned(StatisticOf of, std::size_t size) {
    return {.of = of,
            .transform = of == StatisticOf::transform ? 1u : 0u,
            .name = "x",
            .what = "x",
            .size = size,
            .l2_bound = 1.0,
            .noise_multiplier = 2.0};
  }
};

const ReleasedCounts kReleased{
    .rows = 97, .classes = {-3.5, 99.0}, .statistics = {{1, {0.5f, -0.25f}, 0.125}}};

Json recorded(const core::Plan& plan, const ReleasedCounts& counts) {
  return core::to_json(core::reported_facts(plan, counts).value());
}

/// Reads the recorded releases after a change, given as a JSON pointer and a value.
ReleasedCounts read_with(const std::string& place, const Json& value) {
  const Counting3 counting;
  Json json = recorded(counting.plan, kReleased);
  json[Json::json_pointer(place)] = value;
  return core::counts_from_json(counting.plan, json);
}

}  // namespace

TEST_CASE("means are divided by the released number of rows, and never by a secret one",
          "[counts][privacy]") {
  Counting3 counting;
  CHECK(core::divisor_of(counting.plan, {}) == 100.0);  // a public number
  CHECK(core::divisor_of(counting.plan, kReleased) == 97.0);
  counting.manifest.size_noise = StatisticNoise{.multiplier = 2.0};
  CHECK_THROWS_AS(core::divisor_of(counting.plan, {}), PrivacyError);
  CHECK(core::divisor_of(counting.plan, kReleased) == 97.0);
}

TEST_CASE("a noisy number of rows is rounded to a whole number above 0", "[counts]") {
  CHECK(core::count_of_rows(96.6f) == 97);
  CHECK(core::count_of_rows(2.5f) == 3);
  CHECK(core::count_of_rows(0.4f) == 1);
  CHECK(core::count_of_rows(-1e30f) == 1);
  CHECK(core::count_of_rows(1e30f) == std::uint64_t{1} << 53);
}

TEST_CASE("recorded releases state their noise, and are read as they were", "[counts]") {
  const Counting3 counting;
  const Json json = recorded(counting.plan, kReleased);
  CHECK(json.at("rows") == Json({{"noise_stddev", 2.0}, {"share", 0.25}, {"value", 97}}));
  CHECK(json.at("class_counts").at("share").is_null());
  CHECK(core::counts_from_json(counting.plan, json) == kReleased);
  // Before the end of the run, only the planned facts are known.
  CHECK_FALSE(recorded(counting.plan, {}).at("rows").contains("value"));
}

TEST_CASE("a statistic that is too long is not recorded, and not looked for", "[counts]") {
  Counting3 counting;
  counting.plan.statistics = {
      Counting3::planned(StatisticOf::transform, core::kMostRecordedNumbers + 1)};
  CHECK(core::counts_from_json(counting.plan, Json::object()) == ReleasedCounts{});
  counting.plan.statistics.front().size = core::kMostRecordedNumbers;
  CHECK_THROWS_AS(core::counts_from_json(counting.plan, Json::object()), IoError);
}

TEST_CASE("recorded releases that are not those of the plan are refused", "[counts]") {
  CHECK(read_with("/rows/value", 1u).rows == 1u);
  for (const auto& [place, value] :
       std::vector<std::pair<std::string, Json>>{{"/rows", nullptr},
                                                 {"/rows/value", 0u},
                                                 {"/rows/value", -5},
                                                 {"/rows/value", 9.5},
                                                 {"/rows/value", (std::uint64_t{1} << 53) + 2},
                                                 {"/class_counts/value", Json::array({1.0})},
                                                 {"/class_counts/value", Json::array({1.0, "2"})},
                                                 {"/statistics", Json::array()},
                                                 {"/statistics/0/transform", 0},
                                                 {"/statistics/0/value", Json::array({0.5})},
                                                 {"/statistics/0/noise_stddev", nullptr}})
    CHECK_THROWS_AS(read_with(place, value), IoError);
  CHECK_THROWS_AS(core::counts_from_json(Counting3().plan, Json::array()), IoError);
}
