// The beginning of a statement: the protected unit, the guarantee, and the meaning of its numbers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace privgrad::core {

/// Three paragraphs, derived from the other members; empty for a run without noise, which protects
/// nobody.
std::vector<std::string> lead_prose(const nlohmann::json& statement);

}  // namespace privgrad::core
