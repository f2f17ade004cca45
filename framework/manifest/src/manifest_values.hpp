// Small helpers for keys and values, shared by the files of ManifestReader.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "privgrad/params.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

/// Returns "section.key", or "key" for a key outside of sections.
std::string dotted(std::string_view section, std::string_view key);

Value empty_object(Mark mark);

/// Returns `value` with the place of `given`, unless `given` is null.
Value marked(Value value, const Value* given);

Value without(Value object, std::string_view key);

/// Copies the given values into the resolved manifest, in the order of their declarations.
void keep(Value& resolved, const std::vector<ParamSpec>& declared, const Value& values);

}  // namespace privgrad::core
