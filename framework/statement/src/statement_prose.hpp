// A privacy statement in sentences, and the sentence that warns if its guarantee is weakened.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace privgrad::core {

/// A statement in sentences, from its other members; one text per paragraph.
std::vector<std::string> statement_prose(const nlohmann::json& statement);

/// The first sentence of "prose" if the guarantee is weaker than it looks, with the reason;
/// otherwise "".
std::string statement_stain(const nlohmann::json& statement);

/// A statement in one line.
std::string short_statement(const nlohmann::json& statement);

}  // namespace privgrad::core
