// The beginning of a statement: the protected unit, the guarantee, and the meaning of its numbers.
#pragma once

#include <string>
#include <vector>

#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

/// Three paragraphs, derived from the other members; empty for a run without noise, which protects
/// nobody.
std::vector<std::string> lead_prose(const Statement& statement);

}  // namespace privgrad::core
