// Makes the arms of a study file from its axes, and finds its baselines.
#pragma once

#include <string>
#include <vector>

#include "study_axes.hpp"

namespace privgrad::core {

/// Reads `skip` and `only`, and makes the grid's remaining arms, then the arms in `arms`, at every
/// level.
std::vector<Arm> make_arms(const Value& root, const std::string& file, const StudyAxes& axes,
                           ManifestProblems& problems);

/// \returns for each level, the index of its arm with the baseline's variant. `baseline` names this
///   variant or its place on the axes; without `baseline`, it is the first arm's variant.
std::vector<std::size_t> find_baselines(const Value& root, const StudyAxes& axes,
                                        const std::vector<Arm>& arms, ManifestProblems& problems);

}  // namespace privgrad::core
