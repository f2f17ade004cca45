#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "privgrad/catalog.hpp"

namespace privgrad::tool {

/// What `plugins describe` prints for people.
std::string describe(const Component& component);

/// kind, name, full_name, plugin, version, path, abi, sha256, summary.
nlohmann::json listing_json(const Component& component);

/// The listing's keys, and sees, reference and parameters.
nlohmann::json description_json(const Component& component);

/// "real", "list of integer", "object".
std::string type_text(const ParamSpec& spec);

/// "[0, 1)" for a number with limits, "one of a, b" for choices; "" if everything is allowed.
std::string range_text(const ParamSpec& spec);

}  // namespace privgrad::tool
