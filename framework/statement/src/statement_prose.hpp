// A privacy statement in sentences, and the one sentence that warns where it is worth less.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace privgrad::core {

/// A statement in sentences, from its other members; one text per paragraph.
std::vector<std::string> statement_prose(const nlohmann::json& statement);

/// The reason why the guarantee is less than it looks, with which "prose" begins; "" for none.
std::string statement_stain(const nlohmann::json& statement);

/// A statement in one line.
std::string short_statement(const nlohmann::json& statement);

}  // namespace privgrad::core
