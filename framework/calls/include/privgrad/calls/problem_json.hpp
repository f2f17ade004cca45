#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace privgrad::calls {

/// The parts of a line "FILE:LINE:COLUMN: error: WHERE: WHAT", or "--set KEY: error: ...", for
/// programs: {"file", "line", "column", "set", "where", "message", "expected", "nearest"}; null is
/// what the line does not say. "message" is WHAT as a whole, "expected" and "nearest" are what it
/// says of what is allowed, and of the name that was probably meant.
nlohmann::json problem_json(std::string_view line);

}  // namespace privgrad::calls
