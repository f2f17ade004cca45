#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace privgrad::core {

/// A statement in sentences, from its other members; one text a paragraph.
std::vector<std::string> statement_prose(const nlohmann::json& statement);

/// What makes the guarantee less than it looks; "" for nothing. What "prose" begins with.
std::string statement_stain(const nlohmann::json& statement);

/// A statement in one line.
std::string short_statement(const nlohmann::json& statement);

}  // namespace privgrad::core
