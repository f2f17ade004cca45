#include "privgrad/studies/study_factors.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "metric_values.hpp"
#include "privgrad/statistics/paired_statistics.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;
using Values = std::vector<double>;  // a value for each seed

std::optional<std::vector<std::size_t>> place_of(const Arm& arm, const std::vector<Axis>& factors) {
  std::vector<std::size_t> place;
  for (const Axis& factor : factors) {
    const auto is_here = [&](const AxisValue& value) {
      for (std::size_t key = 0; key < factor.keys.size(); ++key) {
        const auto label = arm.labels.find(factor.keys[key]);
        if (label == arm.labels.end() || label->second != value.labels[key]) return false;
      }
      return true;
    };
    const auto found = std::ranges::find_if(factor.values, is_here);
    if (found == factor.values.end()) return std::nullopt;
    place.push_back(static_cast<std::size_t>(found - factor.values.begin()));
  }
  return place;
}

/// Means per seed at each combination of values of the chosen factors, over the complete
/// combinations of the other factors. The first chosen factor varies slowest.
struct Margins {
  std::vector<Values> means;  ///< Empty without a complete combination.
  std::size_t combinations = 0;
};

Margins margins_of(const FactorGrid& grid, const std::vector<std::size_t>& chosen) {
  std::size_t size = 1;
  for (const std::size_t factor : chosen) size *= grid.factors[factor].values.size();
  std::map<std::vector<std::size_t>, std::vector<const Values*>> combinations;
  for (const auto& [place, values] : grid.cells) {
    std::vector<std::size_t> others = place;
    std::size_t at = 0;
    for (const std::size_t factor : chosen) {
      at = at * grid.factors[factor].values.size() + place[factor];
      others[factor] = 0;
    }
    auto& cells = combinations[others];
    cells.resize(size, nullptr);
    cells[at] = &values;
  }
  Margins margins;
  for (const auto& [others, cells] : combinations) {
    if (std::ranges::count(cells, nullptr) > 0) continue;
    if (margins.combinations++ == 0) margins.means.assign(size, Values(cells.front()->size(), 0.0));
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t seed = 0; seed < cells[i]->size(); ++seed)
        margins.means[i][seed] += (*cells[i])[seed];
    }
  }
  for (Values& mean : margins.means)
    for (double& value : mean) value /= static_cast<double>(margins.combinations);
  return margins;
}

/// The p value for the hypothesis that the means of all contrasts are 0: Bonferroni over t tests.
std::optional<double> joint_p(const std::vector<Values>& contrasts, std::size_t looks) {
  std::optional<double> least;
  for (const Values& contrast : contrasts) {
    const auto p = compare_with_zero(contrast, looks * contrasts.size()).p;
    if (p) least = std::min(least.value_or(1.0), *p);
  }
  return least;
}

Values combined(const Values& a, const Values& b, double sign) {
  Values sum = a;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += sign * b[i];
  return sum;
}

Json main_json(const Axis& factor, const Margins& margins, std::size_t looks) {
  Json values = Json::array();
  std::vector<Values> contrasts;
  for (std::size_t i = 0; i < margins.means.size(); ++i) {
    const SampleSummary summary = summarize(margins.means[i], looks * margins.means.size());
    values.push_back({{"label", factor.values[i].label},
                      {"mean", summary.mean},
                      {"ci95", summary.ci95 ? Json(*summary.ci95) : Json()}});
    if (i > 0) contrasts.push_back(combined(margins.means[i], margins.means[0], -1.0));
  }
  const auto p = joint_p(contrasts, looks);
  return {{"factor", factor.keys.front()},
          {"combinations", margins.combinations},
          {"values", std::move(values)},
          {"p", p ? Json(*p) : Json()}};
}

Json pair_json(const Axis& a, const Axis& b, const Margins& margins, std::size_t looks) {
  const std::size_t rows = a.values.size(), columns = b.values.size();
  Json means = Json::array();
  std::vector<Values> contrasts;
  for (std::size_t i = 0; i < rows && !margins.means.empty(); ++i) {
    Json row = Json::array();
    for (std::size_t j = 0; j < columns; ++j) {
      const auto cell = [&](std::size_t r, std::size_t c) -> const Values& {
        return margins.means[r * columns + c];
      };
      row.push_back(summarize(cell(i, j)).mean);
      if (i == 0 || j == 0) continue;
      contrasts.push_back(combined(combined(cell(i, j), cell(i, 0), -1.0),
                                   combined(cell(0, j), cell(0, 0), -1.0), -1.0));
    }
    means.push_back(std::move(row));
  }
  const auto p = joint_p(contrasts, looks);
  return {{"factors", {a.keys.front(), b.keys.front()}},
          {"combinations", margins.combinations},
          {"means", std::move(means)},
          {"p", p ? Json(*p) : Json()}};
}

void add_holm(Json& main, Json& pairs) {
  std::vector<Json*> tests;
  for (Json* list : {&main, &pairs})
    for (Json& one : *list) tests.push_back(&one);
  std::vector<std::optional<double>> p;
  for (const Json* test : tests)
    p.push_back(test->at("p").is_null() ? std::nullopt
                                        : std::optional(test->at("p").get<double>()));
  const auto adjusted = holm(p);
  for (std::size_t i = 0; i < tests.size(); ++i)
    (*tests[i])["p_holm"] = adjusted[i] ? Json(*adjusted[i]) : Json();
}

}  // namespace

FactorGrid grid_of(const StudyPlan& plan, const StudyRuns& runs, const std::string& metric) {
  FactorGrid grid{.factors = varied_axes(*plan.study), .cells = {}};
  std::erase_if(grid.factors, [](const Axis& axis) { return axis.values.size() < 2; });
  for (std::size_t a = 0; a < runs.size(); ++a) {
    if (plan.is_reference(a)) continue;
    const auto place = place_of(*plan.arms[a].arm, grid.factors);
    auto values = values_of(runs[a], metric);
    if (place && values) grid.cells.emplace(*place, std::move(*values));
  }
  return grid;
}

nlohmann::json factors_json(const FactorGrid& grid, std::size_t looks) {
  const std::size_t count = grid.factors.size();
  if (count < 2) return nullptr;
  Json main = Json::array(), pairs = Json::array();
  for (std::size_t a = 0; a < count; ++a) {
    main.push_back(main_json(grid.factors[a], margins_of(grid, {a}), looks));
    for (std::size_t b = a + 1; b < count; ++b)
      pairs.push_back(pair_json(grid.factors[a], grid.factors[b], margins_of(grid, {a, b}), looks));
  }
  add_holm(main, pairs);
  return {{"main", std::move(main)}, {"interactions", std::move(pairs)}};
}

}  // namespace privgrad::core
