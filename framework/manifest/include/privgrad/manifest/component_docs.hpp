// Manual pages of components, generated from their declarations.
#pragma once

#include <string>

#include "privgrad/catalog.hpp"
#include "privgrad/params.hpp"

namespace privgrad::core {

/// The manual page of a component in Markdown, made from its declaration alone: what it does, what
/// it follows, what it may see, its parameters with type, unit, range and default, and how it looks
/// in a manifest. Depends on nothing but the declaration, so that pages in docs/ can be compared.
std::string component_page(const Component& component);

/// The same for a terminal, at most 80 columns wide where words allow, with the plugin's version
/// and file; ends with a line break.
std::string component_text(const Component& component);

/// "real", "list of integers", "one of: relu, tanh".
std::string type_text(const ParamSpec& spec);

/// "[0, 1)", "> 0", "any" ... with the unit; "" where a range has no meaning.
std::string range_text(const ParamSpec& spec);

/// "0.9", "relu", "required", "none".
std::string default_text(const ParamSpec& spec);

/// The least that a manifest must write to use it, e.g. "{kind: momentum}", as YAML in block style.
std::string component_example(const Component& component);

}  // namespace privgrad::core
