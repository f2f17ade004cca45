// Reads the axes, the arms and the baseline of a study file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/studies/study.hpp"

namespace privgrad::core {

/// The axes of a study, as written.
struct StudyAxes {
  std::vector<Axis> axes;
  std::vector<Mark> marks;  ///< One per axis.
};

/// Reads `axes` and `zip`.
StudyAxes read_axes(const Value& root, ManifestProblems& problems);

/// Reads `skip` and `only`, and makes the remaining arms of the grid, then those of `arms`.
std::vector<Arm> make_arms(const Value& root, const std::string& file, const StudyAxes& axes,
                           ManifestProblems& problems);

/// \returns the index of the arm that `baseline` names, or describes by its place on the axes; 0 if
///   there is no `baseline`.
std::size_t find_baseline(const Value& root, const StudyAxes& axes, const std::vector<Arm>& arms,
                          ManifestProblems& problems);

/// The members of an object of overrides, {KEY: VALUE}.
std::vector<ManifestChange> read_changes(const Value& node, const std::string& where,
                                         const std::string& file, ManifestProblems& problems);

}  // namespace privgrad::core
