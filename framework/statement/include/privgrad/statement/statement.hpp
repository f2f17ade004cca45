// The privacy statement of a run: everything that a reader needs to judge its guarantee, as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/outcome.hpp"

namespace privgrad::core {

/// The privacy statement of a run, as in statement.json: everything that Ponomareva et al. 2023
/// ("How to DP-fy ML", section 5.3.3) ask of a report. Setting, unit, adjacency, which accesses to
/// the data are covered, the releases, sampling, mechanism, accountant, (epsilon, delta) with its
/// kind of bound, how the assumptions hold, randomness, arithmetic and versions.
///
/// "prose" says the same in sentences, one text per paragraph. It begins with the sentence of
/// "stain", a warning, if the guarantee is weakened; then come the three paragraphs of "lead": who
/// is protected, how much, and what the numbers mean. "short" is one line for the model file.
///
/// Privacy: a function of the plan and of the releases.
/// \throws nothing of its own.
nlohmann::json privacy_statement(const Plan& plan, const Outcome& outcome);

/// The statement with these `versions`: the plugin files that actually ran, and what was recorded
/// about them then; a process that recomputes the statement may have others.
/// \throws nlohmann::json::exception if `versions` does not have the form that statements use.
nlohmann::json with_versions(nlohmann::json statement, const nlohmann::json& versions);

}  // namespace privgrad::core
