// What is wrong with JSON that anybody may have made, besides its grammar.
#pragma once

#include <string>
#include <string_view>

namespace privgrad::core {

/// To be asked before a text is parsed: what is parsed gets copied by recursion, and of a key that
/// an object has twice the parser takes the last one, and other readers the first.
/// \param deepest  how deep its brackets may open.
/// \returns "is nested deeper than N" or "has the key "x" twice"; "" for all else, also if it is no JSON.
std::string json_problem(int deepest, std::string_view text);

}  // namespace privgrad::core
