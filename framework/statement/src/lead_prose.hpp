// The beginning of a statement: who is protected, how much, and what its numbers mean.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace privgrad::core {

/// Three paragraphs, made from the other members; empty for a run without noise, which protects
/// nobody.
std::vector<std::string> lead_prose(const nlohmann::json& statement);

}  // namespace privgrad::core
