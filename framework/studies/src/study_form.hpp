// What may stand at each place of a study file, declared once: as a JSON Schema, by which files are
// checked when they are read, and which editors get.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

/// The schema of a study file, but for two of its definitions: "base", a manifest whose keys may be
/// missing, and "manifest_key", which names a manifest has.
const nlohmann::json& study_form();

/// Reports all that study_form() refuses, by type, number, name and key. Patterns and lengths of
/// texts are left to those who read them.
void check_form(const Value& study, ManifestProblems& problems);

}  // namespace privgrad::core
