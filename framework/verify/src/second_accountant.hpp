// Asks a second accountant for the total cost of the charges in a run's ledgers.
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
  PrivacyAnswer named;  ///< The cost of the charges by the manifest's accountant.
  std::vector<Event> costs;
  /// Whether `named` may exceed the true cost, so that no lower bound can contradict it.
  bool are_bounds = false;
};

/// Adds two answers about a ledger to the result: the answer of the named accountant, as the run's
/// epsilon, and the tightest finite proof of any other accountant with default parameters (an
/// estimate is no proof). If another accountant's lower bound exceeds the named answer, adds a
/// problem, unless charged.are_bounds. Without a second answer, adds a note with the reasons.
/// \param must_be_filter  whether only privacy filters may answer.
/// \param others  the number of further ledgers. The second accountant's answer about the run is
///   the largest over all ledgers, because accountants disagree about which ledger costs most.
/// \param other  returns the charges of a further ledger, by its index.
void ask_accountants(const Manifest& manifest, const Catalog& catalog, bool must_be_filter,
                     const Charged& charged, std::size_t others,
                     const std::function<Charged(std::size_t)>& other, Verification& result);

}  // namespace privgrad::core
