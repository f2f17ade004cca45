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

/// \returns a hint to append to a name that is not among these; "" if none is similar.
inline std::string did_you_mean(const std::string& name, const std::vector<std::string>& names) {
  const std::string nearest = nearest_name(name, names);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

inline std::string in_quotes(std::string_view text) { return "'" + one_line(text, 80) + "'"; }

}  // namespace privgrad::core
