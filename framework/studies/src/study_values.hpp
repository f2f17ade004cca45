// Accesses the values of a study file, and quotes them.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/params.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

/// \returns null if the value is not an object.
inline const Value::Object* members_of(const Value& node) {
  return std::get_if<Value::Object>(&node.data());
}

/// \returns null if the value is not a list.
inline const Value::List* items_of(const Value& node) {
  return std::get_if<Value::List>(&node.data());
}

inline std::string in_quotes(std::string_view text) { return "'" + one_line(text, 80) + "'"; }

}  // namespace privgrad::core
