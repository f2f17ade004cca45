// Asks accountants what the charges of ledgers cost together: the named one's answer, and a second.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/catalog.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/verify/verify.hpp"

namespace privgrad::core {

/// The charges of a ledger.
struct Charged {
  PrivacyAnswer named;  ///< What the manifest's accountant says that they cost.
  std::vector<Event> costs;
  bool are_bounds = false;  ///< `named` may be above their cost: no lower bound contradicts it.
};

/// Adds the named accountant's answer about a ledger to the result, as the run's epsilon, and that
/// of a second: of all accountants that have a proof about these events, with their default
/// parameters, the tightest (no estimates, and finite). A lower bound above the named answer is a
/// problem; that there is no second, a note with the reasons.
/// \param must_be_filter  whether only privacy filters are asked.
/// \param others  the number of further ledgers. The second's answer about the run is the largest
///   about any of them: accountants differ in which that is.
/// \param other  one of them.
void ask_accountants(const Manifest& manifest, const Catalog& catalog, bool must_be_filter,
                     const Charged& charged, std::size_t others,
                     const std::function<Charged(std::size_t)>& other, Verification& result);

}  // namespace privgrad::core
