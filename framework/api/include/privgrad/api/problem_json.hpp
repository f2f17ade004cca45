// Turns a line of an error message into JSON, for programs such as editors.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace privgrad::api {

/// Returns the parts of a line "FILE:LINE:COLUMN: error: WHERE: WHAT", or "--set KEY: error: ...",
/// for programs: {"file", "line", "column", "set", "where", "message", "expected", "nearest"}; null
/// for parts that the line lacks. "message" is all of WHAT; "expected" and "nearest" are its parts
/// about the allowed values and the probably intended name.
nlohmann::json problem_json(std::string_view line);

}  // namespace privgrad::api
