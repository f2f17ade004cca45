// Expected values by hand, and false positives counted over made-up studies without any effect.
#include "privgrad/studies/study_factors.hpp"

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
  const FactorFacts all = factor_facts(two_by_two(), 1).value();
  const MainEffect& a = all.main.at(0);
  CHECK(a.factor == "a");
  CHECK(a.combinations == 2);
  // The means of the first value are (0 + 1) / 2 and (10 + 13) / 2, on average 6; the means of the
  // second value are 5.5 and 16.5.
  CHECK(a.values.at(0).mean.value() == 6.0);
  CHECK(a.values.at(1).mean.value() == 11.0);
  // The differences are 5 and 5, so without spread there is no test. For the other factor they are
  // 2 and 4: t = 3 with one degree of freedom.
  CHECK(!a.p);
  CHECK_THAT(all.main.at(1).p.value(),
             WithinRel(2.0 * (0.5 - std::atan(3.0) / 3.14159265358979), 1e-9));
}

TEST_CASE("an interaction is a difference of differences", "[factors]") {
  const Interaction pair = factor_facts(two_by_two(), 1)->interactions.at(0);
  CHECK(pair.factors == Texts{"a", "b"});
  CHECK(pair.means == std::vector<std::vector<Nullable<double>>>{{5.0, 7.0}, {9.0, 13.0}});
  CHECK(!pair.p);  // 2 in both seeds

  FactorGrid other = two_by_two();
  other.cells.at({1, 1}) = {7.0, 21.0};  // 2 and 4
  CHECK_THAT(factor_facts(other, 1)->interactions.at(0).p.value(),
             WithinRel(2.0 * (0.5 - std::atan(3.0) / 3.14159265358979), 1e-9));
}

TEST_CASE("intervals of a factor are as wide as its values are many", "[factors]") {
  const auto grid = two_by_two();
  const std::vector<double> second{5.5, 16.5};  // for the first factor's second value
  const auto interval = factor_facts(grid, 1)->main.at(0).values.at(1).ci95;
  const auto expected = summarize(second, 2).ci95.value();  // Bonferroni: two intervals
  CHECK(interval.value() == expected);
}

TEST_CASE("only complete combinations are averaged", "[factors]") {
  FactorGrid grid = two_by_two();
  grid.cells.erase({1, 1});  // this run diverged
  const FactorFacts all = factor_facts(grid, 1).value();
  // Both values of the first factor have runs only if the second factor has its first value.
  CHECK(all.main.at(0).combinations == 1);
  CHECK(all.main.at(0).values.at(1).mean.value() == 9.0);
  CHECK(all.interactions.at(0).combinations == 0);
  CHECK(!all.interactions.at(0).p);
  grid.factors.pop_back();
  CHECK(!factor_facts(grid, 1));
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
    const FactorFacts all = factor_facts(grid, 1).value();
    bool is_found = false, is_outside = false;
    for (const MainEffect& one : all.main) is_found |= one.p_holm.value() < 0.05;
    for (const Interaction& one : all.interactions) is_found |= one.p_holm.value() < 0.05;
    for (const FactorValue& value : all.main.at(0).values)
      is_outside |= value.ci95->front() > 0.0 || value.ci95->back() < 0.0;
    wrong += is_found;
    outside += is_outside;
  }
  // Four standard errors of a share of 5 %: false alarm below 1e-4.
  const double most = count * 0.05 + 4.0 * std::sqrt(count * 0.05 * 0.95);
  CHECK(wrong <= most);
  CHECK(outside <= most);
}
