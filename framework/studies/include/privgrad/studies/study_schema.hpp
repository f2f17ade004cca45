// The JSON Schema of study files, with which editors complete and check them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "privgrad/catalog.hpp"

namespace privgrad::core {

/// A JSON Schema (draft 2020-12) for studies: editors complete and check them with it. An inline
/// base is checked like a manifest, but keys may be missing, because every arm may set them.
///
/// It accepts what read_study() accepts, but ignores conditions that a schema cannot express: that
/// files exist, that names and conditions mean something on the axes, and that every arm is a valid
/// manifest.
nlohmann::json study_schema(const Catalog& catalog);

}  // namespace privgrad::core
