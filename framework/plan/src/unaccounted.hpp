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
/// read, so that it is refused with the same words whatever rows hold: facts of the data source, the
/// number of rows, transforms, sums in floating point.
/// \param foreseen  what the source says by ForeseesInfo.
/// \throws PrivacyError
void refuse_foreseen(const Manifest& manifest, const DataInfo& foreseen);

}  // namespace privgrad::core
