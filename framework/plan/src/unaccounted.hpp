// The list of all uses of private rows in a plan that no accountant is charged for.
#pragma once

#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The uses of private rows for which no accountant is charged.
/// \param more  further ones that the caller knows.
/// \throws PrivacyError for any of them in release mode.
std::vector<Unaccounted> list_unaccounted(const Plan& plan, std::vector<Unaccounted> more = {});

/// In release mode, refuses what list_unaccounted() would refuse, as far as it is known before a
/// row is read, so that the words do not depend on the rows. What remains for list_unaccounted()
/// depends on calibrated noise, on a number of rows that is not declared, and on the shape of rows
/// if the source does not foresee it.
/// \param foreseen  its info is what the source returns from foreseen_info(); it has a model if
///   that includes a shape, and weights if the manifest names some.
/// \throws PrivacyError
void refuse_foreseen(const Manifest& manifest, const Setting& foreseen);

/// The unaccounted uses of private rows in a federated run that follow only from the manifest.
std::vector<Unaccounted> foreseen_of_clients(const Manifest& manifest);

}  // namespace privgrad::core
