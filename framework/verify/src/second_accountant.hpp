// Asks the other accountants of the catalog to confirm the total of a ledger.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The proof of an accountant beside the named one.
struct SecondAnswer {
  std::string name;
  PrivacyAnswer epsilon;
};

/// Asks every other accountant of the catalog about the events, with its default parameters.
/// \returns the answers that are proofs (no estimates, and finite), the tightest first.
/// \param refusals  out: the reasons why the others have none, one line each.
/// \param only  the full name of the one to ask.
std::vector<SecondAnswer> second_answers(const Manifest& manifest, const Catalog& catalog,
                                         std::span<const Event> costs, bool must_be_filter,
                                         std::vector<std::string>& refusals,
                                         const std::optional<std::string>& only = {});

}  // namespace privgrad::core
