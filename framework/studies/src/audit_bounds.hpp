#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "privgrad/plan/plan.hpp"
#include "privgrad/studies/audit.hpp"

namespace privgrad::core {

/// One coin, as it was guessed.
struct AuditGuess {
  double score;  ///< The larger its absolute value, the clearer.
  bool is_right;
};

/// The methods, and how many guesses each is to make: fixed before anything is thrown or drawn,
/// from what the plan says. The first one is the audit's.
/// \param canaries  of one run; of repeated ones places.
/// \param family  of the plan's charges.
std::vector<AuditBound> planned_bounds(const Plan& plan, const AuditOptions& options,
                                       std::uint64_t canaries,
                                       const std::optional<SampledFamily>& family);

/// Fills in what the planned bounds of `result` come to.
void evaluate(AuditResult& result, std::vector<AuditGuess> guesses,
              const std::optional<SampledFamily>& family);

/// \throws Error if the audit was told to stop.
void check_not_stopped(const AuditOptions& options);

}  // namespace privgrad::core
