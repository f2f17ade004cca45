// Short names for the values of a study's axes, and the rule for such names.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/value.hpp"

namespace privgrad::core {

/// Whether a text may name an arm or a value of an axis: letters, digits, '.', '_', '-', '+' and
/// '=', beginning with a letter, a digit or '-', at most 80 characters.
bool is_label(std::string_view text);

/// \returns a short name for each value of an axis: the value itself, or the kind of a component,
///   with its parameters if two would otherwise have the same name. "" for a value that has no
///   short name.
std::vector<std::string> labels_of(const std::vector<Value>& values);

/// The number that a name represents; nothing if it is not a number.
std::optional<double> number_of_label(std::string_view label);

/// Whether the values are equal as YAML: 1 equals 1.0, and the order of members does not matter.
bool same_value(const Value& a, const Value& b);

}  // namespace privgrad::core
