// Looks into the values of a study file, and quotes them.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

/// \returns null if it is no object.
inline const Value::Object* members_of(const Value& node) {
  return std::get_if<Value::Object>(&node.data());
}

/// \returns null if it is no list.
inline const Value::List* items_of(const Value& node) {
  return std::get_if<Value::List>(&node.data());
}

inline std::string in_quotes(std::string_view text) { return "'" + one_line(text, 80) + "'"; }

}  // namespace privgrad::core
