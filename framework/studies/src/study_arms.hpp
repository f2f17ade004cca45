// Makes the arms of a study file from its axes, and finds its baselines.
#pragma once

#include <string>
#include <vector>

#include "study_axes.hpp"

namespace privgrad::core {

/// Reads `skip` and `only`, and makes the remaining arms of the grid, then those of `arms`, at
/// every level.
std::vector<Arm> make_arms(const Value& root, const std::string& file, const StudyAxes& axes,
                           ManifestProblems& problems);

/// \returns for each level the index of the arm whose variant `baseline` names, or describes by its
///   place on the axes; without `baseline`, the variant of the first arm.
std::vector<std::size_t> find_baselines(const Value& root, const StudyAxes& axes,
                                        const std::vector<Arm>& arms, ManifestProblems& problems);

}  // namespace privgrad::core
