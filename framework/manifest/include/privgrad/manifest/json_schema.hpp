// The JSON Schema of manifests for editors, and the conversion of values to and from JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "privgrad/catalog.hpp"
#include "privgrad/params.hpp"

namespace privgrad::core {

struct Manifest;

/// A JSON Schema (draft 2020-12) for manifests, made from the declarations of the loaded
/// components, including those of third parties. Editors use it to complete and check manifests.
///
/// It accepts every manifest that load_manifest() accepts, but ignores conditions that a schema
/// cannot express: that files exist, what release mode refuses, and that a manifest without a
/// target needs noise.
nlohmann::json manifest_schema(const Catalog& catalog);

/// Returns the schema of one parameter: type, bounds, choices, default, description with the unit.
nlohmann::json param_schema(const ParamSpec& spec);

/// Returns a value as JSON.
/// \throws ConfigError for NaN and infinities, which JSON lacks.
nlohmann::json value_to_json(const Value& value);

/// The inverse of value_to_json(); integers stay integers.
/// \throws IoError for integers above the largest std::int64_t.
Value value_from_json(const nlohmann::json& json);

/// Returns the part of a manifest on which the sites of a federated run agree: everything except
/// the rows of one site and the account of these rows.
nlohmann::json shared_by_sites(const Manifest& manifest);

}  // namespace privgrad::core
