#pragma once

#include <optional>
#include <string>
#include <vector>

#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/studies/study.hpp"

namespace privgrad::core {

/// What a study varies, as it is written.
struct StudyAxes {
  std::vector<Axis> axes;
  std::vector<Mark> marks;  ///< One per axis.
};

/// Reads `axes` and `zip`.
StudyAxes read_axes(const Value& root, ManifestProblems& problems);

/// Reads `skip` and `only` and makes the arms of the grid that are left, then those of `arms`.
std::vector<Arm> make_arms(const Value& root, const std::string& file, const StudyAxes& axes,
                           ManifestProblems& problems);

/// \returns the index of the arm that `baseline` names, or describes by its place on the axes; 0 if
///   it is not given.
std::size_t find_baseline(const Value& root, const StudyAxes& axes, const std::vector<Arm>& arms,
                          ManifestProblems& problems);

/// The members of an object of overrides, {KEY: VALUE}.
std::vector<ManifestChange> read_changes(const Value& node, const std::string& where,
                                         const std::string& file, ManifestProblems& problems);

}  // namespace privgrad::core
