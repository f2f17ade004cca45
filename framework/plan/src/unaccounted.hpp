// The list of all uses of private rows in a plan that no accountant is charged for.
#pragma once

#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The uses of private rows that no accountant is charged for.
/// \param more  further ones that the caller knows of.
/// \throws PrivacyError for any of them in release mode.
std::vector<Unaccounted> list_unaccounted(const Plan& plan, std::vector<Unaccounted> more = {});

}  // namespace privgrad::core
