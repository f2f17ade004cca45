// A privacy statement in sentences, and the sentence that warns if its guarantee is weakened.
#pragma once

#include <string>
#include <vector>

#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

/// A statement in sentences, from its other members; one text per paragraph.
std::vector<std::string> statement_prose(const Statement& statement);

/// A warning, the first paragraph of "prose", if the guarantee is weaker than it looks; otherwise
/// "".
std::string statement_stain(const Statement& statement);

std::string short_statement(const Statement& statement);

}  // namespace privgrad::core
