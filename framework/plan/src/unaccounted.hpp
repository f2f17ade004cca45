// The list of all uses of private rows in a plan that no accountant is charged for.
#pragma once

#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The uses of private rows for which no accountant is charged.
/// \param more  further uses that the caller knows.
/// \throws PrivacyError in release mode for any such use, and for a large delta.
std::vector<Unaccounted> list_unaccounted(const Plan& plan, std::vector<Unaccounted> more = {});

/// In release mode, makes the refusals of list_unaccounted() that are known before a row is read,
/// so their messages do not depend on the rows. The other refusals depend on calibrated noise, on
/// an undeclared number of rows, or on the shape of rows if the source does not foresee it.
/// \param foreseen  a setting whose `info` comes from foreseen_info(). What depends on a model or
///   on weights is refused only if the setting has them.
/// \throws PrivacyError for a refusal.
void refuse_foreseen(const Manifest& manifest, const Setting& foreseen);

/// The unaccounted uses of private rows in a federated run that follow from its manifest.
std::vector<Unaccounted> foreseen_of_clients(const Manifest& manifest);

}  // namespace privgrad::core
