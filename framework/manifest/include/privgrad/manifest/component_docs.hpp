// Manual pages of components, generated from their declarations.
#pragma once

#include <string>

#include "privgrad/catalog.hpp"
#include "privgrad/params.hpp"

namespace privgrad::core {

/// Returns the manual page of a component in Markdown: its purpose, its reference, the data that it
/// may see, its parameters with type, unit, range and default, and an example in a manifest. The
/// page depends only on the declaration, so a test can compare it with docs/.
std::string component_page(const Component& component);

/// Returns a component's page for a terminal, with the plugin's version and file; wraps text at 80
/// columns, and ends with a line break.
std::string component_text(const Component& component);

/// Returns the type in words: "real", "list of integers", "one of: relu, tanh".
std::string type_text(const ParamSpec& spec);

/// Returns the range with the unit: "[0, 1)", "> 0", "any" ...; "" if the type has no range.
std::string range_text(const ParamSpec& spec);

/// Returns the default in words: "0.9", "relu", "required", "none".
std::string default_text(const ParamSpec& spec);

/// Returns the shortest valid use in a manifest, such as "kind: momentum", as to_yaml() writes it.
std::string component_example(const Component& component);

}  // namespace privgrad::core
