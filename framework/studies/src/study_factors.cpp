#include "privgrad/studies/study_factors.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "metric_values.hpp"
#include "privgrad/statistics/paired_statistics.hpp"

namespace privgrad::core {
namespace {

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

MainEffect main_effect(const Axis& factor, const Margins& margins, std::size_t looks) {
  MainEffect effect{.factor = factor.keys.front(), .combinations = margins.combinations};
  std::vector<Values> contrasts;
  for (std::size_t i = 0; i < margins.means.size(); ++i) {
    const SampleSummary summary = summarize(margins.means[i], looks * margins.means.size());
    effect.values.push_back({factor.values[i].label, summary.mean, summary.ci95});
    if (i > 0) contrasts.push_back(combined(margins.means[i], margins.means[0], -1.0));
  }
  effect.p = joint_p(contrasts, looks);
  return effect;
}

Interaction interaction(const Axis& a, const Axis& b, const Margins& margins, std::size_t looks) {
  const std::size_t rows = a.values.size(), columns = b.values.size();
  Interaction pair{.factors = {a.keys.front(), b.keys.front()},
                   .combinations = margins.combinations};
  std::vector<Values> contrasts;
  for (std::size_t i = 0; i < rows && !margins.means.empty(); ++i) {
    auto& row = pair.means.emplace_back();
    for (std::size_t j = 0; j < columns; ++j) {
      const auto cell = [&](std::size_t r, std::size_t c) -> const Values& {
        return margins.means[r * columns + c];
      };
      row.push_back(summarize(cell(i, j)).mean);
      if (i == 0 || j == 0) continue;
      contrasts.push_back(combined(combined(cell(i, j), cell(i, 0), -1.0),
                                   combined(cell(0, j), cell(0, 0), -1.0), -1.0));
    }
  }
  pair.p = joint_p(contrasts, looks);
  return pair;
}

void add_holm(FactorFacts& facts) {
  std::vector<std::optional<double>> p;
  for (const MainEffect& one : facts.main) p.push_back(one.p);
  for (const Interaction& one : facts.interactions) p.push_back(one.p);
  const auto adjusted = holm(p);
  auto next = adjusted.begin();
  for (MainEffect& one : facts.main) one.p_holm = *next++;
  for (Interaction& one : facts.interactions) one.p_holm = *next++;
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

Nullable<FactorFacts> factor_facts(const FactorGrid& grid, std::size_t looks) {
  const std::size_t count = grid.factors.size();
  if (count < 2) return {};
  FactorFacts facts;
  for (std::size_t a = 0; a < count; ++a) {
    facts.main.push_back(main_effect(grid.factors[a], margins_of(grid, {a}), looks));
    for (std::size_t b = a + 1; b < count; ++b)
      facts.interactions.push_back(
          interaction(grid.factors[a], grid.factors[b], margins_of(grid, {a, b}), looks));
  }
  add_holm(facts);
  return facts;
}

}  // namespace privgrad::core
