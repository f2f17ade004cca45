// Sentences of a statement about noise shared between steps, and about participation.
#pragma once

#include <optional>
#include <string>

#include "privgrad/record/short_numbers.hpp"
#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

/// Returns a range as "1.5 to 3"; "none" if there is no range.
template <class Number>
std::string range_text(const std::optional<Range<Number>>& range) {
  if (!range) return "none";
  return short_range(static_cast<double>(range->smallest), static_cast<double>(range->largest), 5);
}

/// Describes noise that steps share.
/// \param mechanism  its member `correlated` must exist.
std::string correlated_noise(const MechanismFacts& mechanism);

/// Describes how the batches, or the clients of a round, were checked.
std::string checked_draws(const MechanismFacts& mechanism);

}  // namespace privgrad::core
