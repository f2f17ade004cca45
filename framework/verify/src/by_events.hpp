// Verification of a run that names removed components, from the events in its ledgers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "privgrad/manifest/removed_components.hpp"
#include "privgrad/verify/verify.hpp"

namespace privgrad::core {

/// Replaces verify_run() if the plan cannot be recomputed. Checks the chains and the files that
/// they bind. It trusts the charges in the lines, and adds a note about this. The manifest's
/// accountant recomputes the total of those events after each payment, which must equal the line's,
/// stay within the budget, and not exceed the statement's.
/// \param removed  the components of the manifest that no longer exist; not empty.
Verification verify_by_events(const RecordDirectory& directory, const Catalog& catalog,
                              std::optional<std::size_t> client,
                              std::span<const RemovedComponent* const> removed);

}  // namespace privgrad::core
