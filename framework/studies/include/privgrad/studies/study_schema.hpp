// The JSON Schema with which editors complete and check study files.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "privgrad/catalog.hpp"

namespace privgrad::core {

/// Returns a JSON Schema (draft 2020-12) with which editors complete and check studies. An inline
/// base is checked like a manifest, but keys may be missing, because every arm may set them.
///
/// It accepts every study that read_study() accepts, but ignores conditions that a schema cannot
/// express: that files exist, that names and conditions refer to the axes, and that every arm is a
/// valid manifest.
nlohmann::json study_schema(const Catalog& catalog);

}  // namespace privgrad::core
