#pragma once

#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// What no accountant is charged for.
/// \param more  of it, that the caller knows of.
/// \throws PrivacyError for any of it in release mode.
std::vector<Unaccounted> list_unaccounted(const Plan& plan, std::vector<Unaccounted> more = {});

}  // namespace privgrad::core
