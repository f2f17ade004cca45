// The privacy statement of a run: everything that a reader needs to judge its guarantee, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/outcome.hpp"

namespace privgrad::core {

/// The privacy statement of a run, in the form of statement.json. It contains everything that
/// Ponomareva et al. 2023 ("How to DP-fy ML", section 5.3.3) require of a report: setting, unit,
/// adjacency, which accesses to the data are covered, releases, sampling, mechanism, accountant,
/// (epsilon, delta) with its kind of bound, the assumptions, randomness, arithmetic and versions.
///
/// "prose" states the same in sentences, one text per paragraph. If the guarantee is weakened,
/// it begins with "stain", a warning. The three paragraphs of "lead" follow: the protected
/// unit, the guarantee, and the meaning of the numbers. "short" is one line for the model
/// file.
///
/// Privacy: depends only on the plan and the releases.
/// \throws only errors of the functions that it calls.
nlohmann::json privacy_statement(const Plan& plan, const Outcome& outcome);

/// The statement with these `versions`: the plugin files that actually ran, with the records about
/// them at that time. A process that recomputes the statement may have different files.
/// \throws nlohmann::json::exception if `versions` does not have the form that statements use.
nlohmann::json with_versions(nlohmann::json statement, const nlohmann::json& versions);

}  // namespace privgrad::core
