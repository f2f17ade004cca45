// Reads the axes of a study file and of its search, and changes of a manifest, from values that
// have the form of study_form().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/studies/study.hpp"

namespace privgrad::core {

struct StudyAxes {
  std::vector<Axis> axes;
  bool has_levels = false;  ///< Whether the levels are the first axis.
  std::vector<Mark> marks;  ///< One per axis.
};

/// Whether a dotted key equals `whole`, or is below it.
bool is_within(std::string_view key, std::string_view whole);

StudyAxes read_axes(const Value& root, ManifestProblems& problems);

/// Reads axes of a search, an object like `axes`, whose keys must not overlap keys of `taken`.
/// \param where  the search's key, for problems.
std::vector<Axis> read_search_axes(const Value& node, const std::string& where,
                                   const std::vector<Axis>& taken, ManifestProblems& problems);

/// The members of an object of overrides, {KEY: VALUE}.
std::vector<ManifestChange> changes_in(const Value& node, const std::string& file);

}  // namespace privgrad::core
