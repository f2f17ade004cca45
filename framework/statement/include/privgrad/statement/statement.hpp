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
/// ("How to DP-fy ML", section 5.3.3) ask of a report. Setting, unit, adjacency, what accesses to
/// the data are covered, what is released, sampling, mechanism, accountant, (epsilon, delta) with
/// its kind of bound, how the assumptions hold, randomness, arithmetic and versions.
///
/// "prose" has the same in sentences, one text a paragraph; the first sentence says what stains the
/// guarantee, if something does ("stain" has that alone). "short" is one line for the model file.
///
/// Privacy: a function of the plan and of what was released.
/// \throws nothing of its own.
nlohmann::json privacy_statement(const Plan& plan, const Outcome& outcome);

}  // namespace privgrad::core
