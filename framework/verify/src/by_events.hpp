// Verification of a run that names components which were removed, by the events of its ledgers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "privgrad/manifest/removed_components.hpp"
#include "privgrad/verify/verify.hpp"

namespace privgrad::core {

/// What verify_run() does where the plan cannot be made again. The chains are checked, and the files
/// that they bind; what each line says was charged is believed, and a note says so; the accountant
/// of the manifest is asked again what those events cost together after each payment, and that must
/// be what the line says, within the budget, and no more than the statement says.
/// \param removed  the components of the manifest that are not there any more; not empty.
Verification verify_by_events(const RecordDirectory& directory, const Catalog& catalog,
                              std::optional<std::size_t> client,
                              std::span<const RemovedComponent* const> removed);

}  // namespace privgrad::core
