// Expected values by hand, and false positives counted over made-up studies without any effect.
#include "privgrad/studies/study_factors.hpp"

#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "privgrad/statistics/paired_statistics.hpp"
#include "support.hpp"
#include "trials.hpp"

using namespace privgrad::core;

namespace {

Axis axis(const std::string& key, std::size_t values) {
  Axis made{.keys = {key}, .values = {}};
  for (std::size_t i = 0; i < values; ++i)
    made.values.push_back(
        {"v" + std::to_string(i), {privgrad::Value(0)}, {"v" + std::to_string(i)}});
  return made;
}

FactorGrid two_by_two() {
  // Two seeds. The second factor adds 1 to seed 1 and 3 to seed 2, and adds 2 more if the first
  // factor has its second value.
  return {.factors = {axis("a", 2), axis("b", 2)},
          .cells = {{{0, 0}, {0.0, 10.0}},
                    {{0, 1}, {1.0, 13.0}},
                    {{1, 0}, {4.0, 14.0}},
                    {{1, 1}, {7.0, 19.0}}}};
}

}  // namespace

TEST_CASE("marginal means are over the other factor, per seed first", "[factors]") {
  const nlohmann::json all = factors_json(two_by_two(), 1);
  const auto& a = all.at("main").at(0);
  CHECK(a.at("factor") == "a");
  CHECK(a.at("combinations") == 2);
  // The means of the first value are (0 + 1) / 2 and (10 + 13) / 2, on average 6; the means of the
  // second value are 5.5 and 16.5.
  CHECK(a.at("values").at(0).at("mean") == 6.0);
  CHECK(a.at("values").at(1).at("mean") == 11.0);
  // The differences are 5 and 5, so without spread there is no test. For the other factor they are
  // 2 and 4: t = 3 with one degree of freedom.
  CHECK(a.at("p").is_null());
  CHECK_THAT(all.at("main").at(1).at("p").get<double>(),
             WithinRel(2.0 * (0.5 - std::atan(3.0) / 3.14159265358979), 1e-9));
}

TEST_CASE("an interaction is a difference of differences", "[factors]") {
  const nlohmann::json pair = factors_json(two_by_two(), 1).at("interactions").at(0);
  CHECK(pair.at("factors") == nlohmann::json({"a", "b"}));
  CHECK(pair.at("means") == nlohmann::json({{5.0, 7.0}, {9.0, 13.0}}));
  CHECK(pair.at("p").is_null());  // 2 in both seeds

  FactorGrid other = two_by_two();
  other.cells.at({1, 1}) = {7.0, 21.0};  // 2 and 4
  CHECK_THAT(factors_json(other, 1).at("interactions").at(0).at("p").get<double>(),
             WithinRel(2.0 * (0.5 - std::atan(3.0) / 3.14159265358979), 1e-9));
}

TEST_CASE("intervals of a factor are as wide as its values are many", "[factors]") {
  const auto grid = two_by_two();
  const std::vector<double> second{5.5, 16.5};  // for the first factor's second value
  const auto interval = factors_json(grid, 1).at("main").at(0).at("values").at(1).at("ci95");
  const auto expected = summarize(second, 2).ci95.value();  // Bonferroni: two intervals
  CHECK(interval.at(0) == expected[0]);
  CHECK(interval.at(1) == expected[1]);
}

TEST_CASE("only complete combinations are averaged", "[factors]") {
  FactorGrid grid = two_by_two();
  grid.cells.erase({1, 1});  // this run diverged
  const nlohmann::json all = factors_json(grid, 1);
  // Both values of the first factor have runs only if the second factor has its first value.
  CHECK(all.at("main").at(0).at("combinations") == 1);
  CHECK(all.at("main").at(0).at("values").at(1).at("mean") == 9.0);
  CHECK(all.at("interactions").at(0).at("combinations") == 0);
  CHECK(all.at("interactions").at(0).at("p").is_null());
  grid.factors.pop_back();
  CHECK(factors_json(grid, 1).is_null());
}

TEST_CASE("of a thousand studies without an effect, at most one in twenty finds one",
          "[factors][long]") {
  // Seeds share their noise between arms, as in paired runs, and each arm adds its own noise.
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  const int count = trials(1000, "studies");
  int wrong = 0, outside = 0;
  for (int trial = 0; trial < count; ++trial) {
    FactorGrid grid{.factors = {axis("a", 3), axis("b", 2), axis("c", 2)}, .cells = {}};
    std::vector<double> shared(5);
    for (double& value : shared) value = normal(random);
    for (std::size_t a = 0; a < 3; ++a) {
      for (std::size_t b = 0; b < 2; ++b) {
        for (std::size_t c = 0; c < 2; ++c) {
          std::vector<double> values = shared;
          for (double& value : values) value += 0.5 * normal(random);
          grid.cells[{a, b, c}] = values;
        }
      }
    }
    const nlohmann::json all = factors_json(grid, 1);
    bool is_found = false, is_outside = false;
    for (const char* kind : {"main", "interactions"})
      for (const auto& one : all.at(kind)) is_found |= one.at("p_holm") < 0.05;
    for (const auto& value : all.at("main").at(0).at("values"))
      is_outside |= value.at("ci95").at(0) > 0.0 || value.at("ci95").at(1) < 0.0;
    wrong += is_found;
    outside += is_outside;
  }
  // Four standard errors of a share of 5 %: false alarm below 1e-4.
  const double most = count * 0.05 + 4.0 * std::sqrt(count * 0.05 * 0.95);
  CHECK(wrong <= most);
  CHECK(outside <= most);
}
