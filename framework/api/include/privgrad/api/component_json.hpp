// Finds components by the names that users give them, and lists or describes them as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"

namespace privgrad::api {

/// \returns why this machine cannot run a backend with default parameters
///   (Backend::missing_hardware()); "" if it can, and for every other kind of component.
std::string missing_hardware(const Component& component);

/// Returns an object with kind, name, full_name, plugin, version, path, abi, sha256, summary and
/// missing_hardware.
nlohmann::json listing_json(const Component& component);

/// Returns listing_json() with the additional keys sees, reference and parameters.
nlohmann::json description_json(const Component& component);

/// Returns all components, sorted by kind, name and plugin.
std::vector<const Component*> sorted_components(const Catalog& catalog);

/// Returns the output of `privgrad plugins list --json`: "plugins" and "refused".
nlohmann::json list_json(const Catalog& catalog);

/// Finds a component by KIND/NAME, NAME, KIND/PLUGIN:NAME or PLUGIN:NAME.
/// \throws ConfigError if no component matches (with the nearest name) or several do (with all
///   their names).
const Component& find_component(const Catalog& catalog, const std::string& id);

}  // namespace privgrad::api
