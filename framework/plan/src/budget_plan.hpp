#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "guard.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// What the budget pays for, and what that is proved to cost.
struct BudgetPlan {
  std::uint64_t affordable_steps = 0;
  std::vector<Charge> beside;                 ///< Paid for before these steps.
  std::vector<AccountantReport> accountants;  ///< The guarding one first; of these steps.
  Event event = Event::nothing();             ///< The same steps as one event.
};

/// \param target  for epsilon; nothing: all steps are paid for.
/// \param are_bounds  whether the charges are upper bounds on what the releases cost.
/// \throws PrivacyError with the place: not a single step is affordable, an accountant refuses a
/// charge, two contradict each other, or release mode is told no finite epsilon.
BudgetPlan plan_budget(const Manifest& manifest, std::span<const Charge> charges,
                       std::optional<double> target, const BesideCharges& beside, bool are_bounds);

/// Of a run without noise.
BudgetPlan no_budget(const Manifest& manifest, std::uint64_t steps);

}  // namespace privgrad::core
