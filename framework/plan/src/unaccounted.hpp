// The list of all uses of private rows in a plan that no accountant is charged for.
#pragma once

#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The uses of private rows that no accountant is charged for.
/// \param more  further ones that the caller knows of.
/// \throws PrivacyError for any of them in release mode.
std::vector<Unaccounted> list_unaccounted(const Plan& plan, std::vector<Unaccounted> more = {});

/// Refuses in release mode what list_unaccounted() would, as far as it is known before a row is
/// read, so that it is refused with the same words whatever rows hold. What is left to
/// list_unaccounted() follows from calibrated noise, from a number of rows that nobody declares, and
/// from the shape of rows where the source does not foresee it.
/// \param foreseen  its info is what the source says by foreseen_info(); it has a model if a shape is
///   among that, and weights if the manifest names some.
/// \throws PrivacyError
void refuse_foreseen(const Manifest& manifest, const Setting& foreseen);

/// The unaccounted uses of private rows in a federated run that a manifest alone shows.
std::vector<Unaccounted> foreseen_of_clients(const Manifest& manifest);

}  // namespace privgrad::core
