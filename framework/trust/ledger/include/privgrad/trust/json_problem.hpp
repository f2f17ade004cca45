// Problems, other than syntax errors, in JSON from untrusted sources.
#pragma once

#include <string>
#include <string_view>

namespace privgrad::core {

/// Checks a text before it is parsed. Deep nesting is a danger because parsed documents are copied
/// recursively. Duplicate keys are a danger because our parser keeps the last value, and other
/// readers keep the first.
/// \param deepest  how deep brackets may nest.
/// \returns "is nested deeper than N" or "has the key "x" twice"; otherwise "", even if the text is
///   not JSON.
std::string json_problem(int deepest, std::string_view text);

}  // namespace privgrad::core
