#pragma once

#include <nlohmann/json_fwd.hpp>

#include "privgrad/catalog.hpp"

namespace privgrad::tool {

/// kind, name, full_name, plugin, version, path, abi, sha256, summary.
nlohmann::json listing_json(const Component& component);

/// The listing's keys, and sees, reference and parameters.
nlohmann::json description_json(const Component& component);

}  // namespace privgrad::tool
