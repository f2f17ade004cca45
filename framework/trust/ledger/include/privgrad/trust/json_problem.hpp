// Problems, besides syntax errors, of JSON from untrusted sources.
#pragma once

#include <string>
#include <string_view>

namespace privgrad::core {

/// Checks a text before it is parsed. Parsed documents are copied recursively, so deep nesting is a
/// danger; and of a duplicate key our parser keeps the last value, while other readers keep the
/// first.
/// \param deepest  how deep brackets may nest.
/// \returns "is nested deeper than N" or "has the key "x" twice"; otherwise "", even if the text is
///   not JSON.
std::string json_problem(int deepest, std::string_view text);

}  // namespace privgrad::core
