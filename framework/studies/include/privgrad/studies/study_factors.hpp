// The effect of each factor that a study varies, over all arms that have it, and of each pair.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "privgrad/studies/study_results.hpp"

namespace privgrad::core {

/// The arms of a study's grid by their place on it, with their values per seed.
struct FactorGrid {
  std::vector<Axis> factors;  ///< Of two values or more.
  /// By the index of each factor's value: the arms of which every run has a value.
  std::map<std::vector<std::size_t>, std::vector<double>> cells;
};

FactorGrid grid_of(const StudyPlan& plan, const StudyRuns& runs, const std::string& metric);

/// Marginal means of each factor (an axis, or the levels, of two values or more), and the interaction
/// of each pair of factors, in one metric.
///
/// Only arms of the grid count, and of these only what is balanced: other factors are averaged over
/// those of their combinations in which every value of the factor has a run for each seed that did not
/// diverge. Everything is computed per seed first, so that intervals and tests are over seeds, as
/// those of differences between arms are; they hold however arms depend on each other.
///
/// - Intervals of a factor's means hold together with 95 % (Student's t; Bonferroni over its values).
/// - A factor's p is of all its values having one mean: t tests of the differences to its first value,
///   Bonferroni. A pair's p is of no interaction: t tests of the differences of differences to the
///   first values of both, Bonferroni; of two times two values it is the one exact t test.
/// - p_holm: after Holm's correction over all factors and pairs of the metric.
///
/// \returns {"main": [{"factor", "combinations", "values": [{"label", "mean", "ci95"}], "p", "p_holm"}],
///   "interactions": [{"factors": [A, B], "combinations", "means": [of A][of B], "p", "p_holm"}]};
///   null for a study with fewer than two factors. A factor without a complete combination has no
///   values.
/// \param looks  how often the runs may have been looked at (looks_of()).
nlohmann::json factors_json(const FactorGrid& grid, std::size_t looks);

}  // namespace privgrad::core
