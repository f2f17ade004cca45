// Checks an accountant's answer before anything is decided by it.
#pragma once

#include <string_view>

#include "privgrad/accountant.hpp"

namespace privgrad::core {

/// Returns the answer if it is possible at all: an accountant is a plugin, and its answers decide
/// what is released. The note goes into files, so U+FFFD replaces whatever in it is not UTF-8.
/// \param name  the accountant's name, for the error.
/// \throws PluginError if the value is NaN or negative, or below the lower bound that comes with
///   it.
PrivacyAnswer checked(PrivacyAnswer answer, std::string_view name);

/// The same for an accountant that guards a budget.
/// \throws PrivacyError if the answer is an estimate.
PrivacyAnswer checked_guard(PrivacyAnswer answer, std::string_view name);

/// By how much, relatively, the answers of one accountant about the same events may differ between
/// processors: `pld` ends on another grid where its logarithms are rounded otherwise. Both answers
/// are proofs, so either may stand for the other. Seen: up to 5e-6, between processors with and
/// without fused multiply-adds.
inline constexpr double kOfProcessors = 2e-5;

/// The answer of an accountant whose charges are, or may be, more than what is spent: not exact,
/// and without a lower bound.
PrivacyAnswer of_charges_that_are_bounds(PrivacyAnswer answer);

}  // namespace privgrad::core
