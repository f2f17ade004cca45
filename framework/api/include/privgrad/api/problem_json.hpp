// Turns a line of an error message into JSON, for programs such as editors.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace privgrad::api {

/// Splits a line "FILE:LINE:COLUMN: error: WHERE: WHAT", or "--set KEY: error: ...", into
/// {"file", "line", "column", "set", "where", "message", "expected", "nearest"}; missing parts are
/// null. "message" is all of WHAT, "expected" the part of WHAT about the allowed values, and
/// "nearest" the name that WHAT suggests.
nlohmann::json problem_json(std::string_view line);

}  // namespace privgrad::api
