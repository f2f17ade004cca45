// Sentences of a statement about noise shared between steps, and about participation.
#pragma once

#include <optional>
#include <string>

#include "privgrad/record/short_numbers.hpp"
#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

/// A range in words, from the smallest to the largest; "none" for nothing.
template <class Number>
std::string range_text(const std::optional<Range<Number>>& range) {
  if (!range) return "none";
  return short_range(static_cast<double>(range->smallest), static_cast<double>(range->largest), 5);
}

/// \param mechanism  the statement's member.
/// \returns a description of the sums' noise, if steps share noise.
std::string correlated_noise(const MechanismFacts& mechanism);

/// Describes the distributions against which batches were tested.
std::string checked_draws(const MechanismFacts& mechanism);

}  // namespace privgrad::core
