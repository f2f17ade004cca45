// Finding components by the names that users give them, and listing or describing them as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"

namespace privgrad::api {

/// \returns why this machine cannot run a backend with default parameters
///   (Backend::missing_hardware()); "" if it can, and for every other kind of component.
std::string missing_hardware(const Component& component);

/// kind, name, full_name, plugin, version, path, abi, sha256, summary, missing_hardware.
nlohmann::json listing_json(const Component& component);

/// The listing's keys, and sees, reference and parameters.
nlohmann::json description_json(const Component& component);

/// All components, sorted by kind, name and plugin.
std::vector<const Component*> sorted_components(const Catalog& catalog);

/// As `privgrad plugins list --json` prints it: "plugins" and "refused".
nlohmann::json list_json(const Catalog& catalog);

/// Finds a component by KIND/NAME, NAME, KIND/PLUGIN:NAME or PLUGIN:NAME.
/// \throws ConfigError if none matches (with the nearest name) or several do (with all of them).
const Component& find_component(const Catalog& catalog, const std::string& id);

}  // namespace privgrad::api
