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
/// "prose" has the same in sentences, one text per paragraph; the first sentence names a stain on
/// the guarantee, if there is one ("stain" has it alone), and then come the three of "lead", which
/// say who is protected, how much, and what the numbers mean. "short" is one line for the model file.
///
/// Privacy: a function of the plan and of the releases.
/// \throws nothing of its own.
nlohmann::json privacy_statement(const Plan& plan, const Outcome& outcome);

/// The statement as it is where these are its `versions`: the files that ran, which need not be
/// those that make it again, and what was on record about them then.
/// \throws nlohmann::json::exception if `versions` is not as in statements.
nlohmann::json with_versions(nlohmann::json statement, const nlohmann::json& versions);

}  // namespace privgrad::core
