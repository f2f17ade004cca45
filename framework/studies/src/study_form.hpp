// Declares the allowed content of study files once, as a JSON Schema for both the reader of these
// files and editors.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

/// The schema of a study file, without two definitions: "base", a manifest whose keys may be
/// missing, and "manifest_key", the names of a manifest's keys.
const nlohmann::json& study_form();

/// Reports every violation of study_form() in types, numbers, names and keys. The readers check
/// patterns and lengths of texts.
void check_form(const Value& study, ManifestProblems& problems);

}  // namespace privgrad::core
