// Small helpers for keys and values, shared by the files of ManifestReader.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "privgrad/params.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

/// "section.key", or "key" of the manifest as a whole.
std::string dotted(std::string_view section, std::string_view key);

Value empty_object(Mark mark);

/// `value` with the place of `given`, if that was given.
Value marked(Value value, const Value* given);

/// Copies the named parameters that have a value into the resolved manifest.
void keep(Value& resolved, const Params& params, std::initializer_list<std::string_view> names);

}  // namespace privgrad::core
