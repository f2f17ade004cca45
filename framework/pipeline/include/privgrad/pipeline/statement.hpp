#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/pipeline/plan.hpp"

namespace privgrad::core {

struct ChargedSteps {
  std::uint64_t charged = 0;  ///< Paid for; at least those that were made, unless noise is off.
  /// Those that epsilon is of. More than `charged` where releases decided when the run ended: then
  /// all that the budget pays for.
  std::uint64_t accounted = 0;
};

/// What a run has come to.
struct Spending {
  std::string status;       ///< Of the run; kUnfinished while it has not ended.
  std::uint64_t steps = 0;  ///< Made.
  ChargedSteps paid;
  PrivacyAnswer epsilon;  ///< Of the accounted steps; infinite without noise.
};

inline constexpr std::string_view kUnfinished = "unfinished";

/// What a plan can come to at most: the statement of a run that is cut off.
Spending spending_of(const Plan& plan);

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
nlohmann::json privacy_statement(const Plan& plan, const Spending& spending);

}  // namespace privgrad::core
