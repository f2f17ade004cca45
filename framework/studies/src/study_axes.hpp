// Reads the axes of a study file, of its search, and changes of a manifest, from values that are of
// the form that study_form() asks for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/studies/study.hpp"

namespace privgrad::core {

/// The axes of a study, as written.
struct StudyAxes {
  std::vector<Axis> axes;
  bool has_levels = false;  ///< Which are the first axis, then.
  std::vector<Mark> marks;  ///< One per axis.
};

/// Whether a dotted key is another one, or stands below it.
bool is_within(std::string_view key, std::string_view whole);

/// Reads `levels`, `axes` and `zip`.
StudyAxes read_axes(const Value& root, ManifestProblems& problems);

/// Reads axes of a search, an object as `axes`, whose keys are none of `taken`.
/// \param where  the search's key, for problems.
std::vector<Axis> read_search_axes(const Value& node, const std::string& where,
                                   const std::vector<Axis>& taken, ManifestProblems& problems);

/// The members of an object of overrides, {KEY: VALUE}.
std::vector<ManifestChange> changes_in(const Value& node, const std::string& file);

}  // namespace privgrad::core
