// How many planned steps the budget pays for, and their proved cost.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "guard.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

struct BudgetPlan {
  std::uint64_t affordable_steps = 0;
  std::vector<Charge> beside;  ///< The other charges, which the budget pays first.
  /// The answers for these steps; the guarding accountant first.
  std::vector<AccountantReport> accountants;
  Event event = Event::nothing();  ///< The same steps and `beside` as one event.
};

/// \param target  the target for epsilon; if absent: all steps are paid for.
/// \param are_bounds  whether the charges are upper bounds on the cost of the releases.
/// \throws PrivacyError with the place if no step is affordable, an accountant refuses a charge,
///   two accountants contradict each other, or release mode has no finite epsilon.
BudgetPlan plan_budget(const Manifest& manifest, std::span<const Charge> charges,
                       std::optional<double> target, const BesideCharges& beside, bool are_bounds);

BudgetPlan no_budget(const ComponentUse& accountant, std::uint64_t steps);

}  // namespace privgrad::core
