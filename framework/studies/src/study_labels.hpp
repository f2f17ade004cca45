// Short names for the values of a study's axes, and which texts may be such names.
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
///   with its parameters where two would else have the same name. "" for a value without one.
std::vector<std::string> labels_of(const std::vector<Value>& values);

/// The number that a name is; nothing if it is none.
std::optional<double> number_of_label(std::string_view label);

/// Equal as YAML: 1 and 1.0 are, and objects are in any order.
bool same_value(const Value& a, const Value& b);

}  // namespace privgrad::core
