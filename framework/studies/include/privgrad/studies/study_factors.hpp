// The effect of each factor that a study varies, and of each pair of factors, over all arms.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "privgrad/studies/study_results.hpp"

namespace privgrad::core {

/// The values of one metric, by seed and by the arms' places on a study's grid.
struct FactorGrid {
  std::vector<Axis> factors;  ///< The axes with at least two values.
  /// For each arm with a value for every seed: these values, by the arm's place on `factors`.
  std::map<std::vector<std::size_t>, std::vector<double>> cells;
};

FactorGrid grid_of(const StudyPlan& plan, const StudyRuns& runs, const std::string& metric);

/// Computes marginal means of each factor (an axis, or the levels, with at least two values), and
/// the interaction of each pair of factors, in one metric.
///
/// Only arms of the grid count. The means of a factor use only complete combinations of the other
/// factors: for each of the factor's values, all seeds have a run, and none of these runs diverged.
/// Everything is first computed per seed, so intervals and tests are over seeds, as for differences
/// between arms, and are valid for any dependence between arms.
///
/// - The intervals of a factor's means are jointly valid with 95 % confidence (Student's t;
///   Bonferroni over its values).
/// - A factor's p tests whether all its values have the same mean: t tests of the differences from
///   its first value, Bonferroni. A pair's p tests whether there is no interaction: t tests of the
///   differences of differences from the first values of both, Bonferroni; for two times two values
///   this is one exact t test.
/// - p_holm: after Holm's correction over all factors and pairs of the metric.
///
/// \returns nothing for a study with fewer than two factors. A factor without a complete combination
///   has no values.
/// \param looks  how often the runs may have been examined (looks_of()).
Nullable<FactorFacts> factor_facts(const FactorGrid& grid, std::size_t looks);

}  // namespace privgrad::core
