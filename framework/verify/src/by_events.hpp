// Verifies a run with removed components from the events in its ledgers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "privgrad/manifest/removed_components.hpp"
#include "privgrad/verify/verify.hpp"

namespace privgrad::core {

/// Replaces verify_run() if the plan cannot be recomputed. Checks the ledgers' chains of hashes and
/// the files whose hashes the ledgers contain. Trusts the charges in the ledgers' lines, and adds a
/// note about this. After each payment the manifest's accountant recomputes the total of the
/// charges so far, which must equal the line's total and stay within the budget. The final total
/// must not exceed the epsilon in the statement.
/// \param removed  the components of the manifest that no longer exist; not empty.
Verification verify_by_events(const RecordDirectory& directory, const Catalog& catalog,
                              std::optional<std::size_t> client,
                              std::span<const RemovedComponent* const> removed);

}  // namespace privgrad::core
