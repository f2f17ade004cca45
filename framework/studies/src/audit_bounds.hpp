// Plans an audit's bounds, with the number of guesses for each, and evaluates these bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "privgrad/plan/plan.hpp"
#include "privgrad/studies/audit.hpp"

namespace privgrad::core {

struct AuditGuess {
  double score;  ///< A larger absolute value means a clearer guess.
  bool is_right;
};

/// Returns the bounds, still without values, with the number of guesses for each: the plan
/// determines them before anything is drawn. The first bound will be the audit's result.
/// \param canaries  the number of canaries in a single run, or of rows tried as the canary in
///   repeated runs.
/// \param family  the trade-offs of the plan's charges.
std::vector<AuditBound> planned_bounds(const Plan& plan, const AuditOptions& options,
                                       std::uint64_t canaries,
                                       const std::optional<SampledFamily>& family);

/// Sets the values of the planned bounds in `result`.
void evaluate(AuditResult& result, std::vector<AuditGuess> guesses,
              const std::optional<SampledFamily>& family);

/// \throws Error if the audit was asked to stop.
void check_not_stopped(const AuditOptions& options);

}  // namespace privgrad::core
