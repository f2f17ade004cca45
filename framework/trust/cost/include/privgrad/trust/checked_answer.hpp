// Checks an accountant's answer before any decision uses it.
#pragma once

#include <string_view>

#include "privgrad/accountant.hpp"

namespace privgrad::core {

/// Checks an answer, because accountants are plugins whose answers decide what is released. In its
/// note, which is written to files, bytes that are not UTF-8 become U+FFFD.
/// \param name  the accountant's name, for the error.
/// \throws PluginError if the value is NaN, negative, or below its own lower bound.
PrivacyAnswer checked(PrivacyAnswer answer, std::string_view name);

/// Like checked(), for an accountant that guards a budget.
/// \throws PrivacyError if the answer is an estimate.
PrivacyAnswer checked_guard(PrivacyAnswer answer, std::string_view name);

/// The relative difference that is allowed between answers of one accountant about the same events
/// on different processors: `pld` chooses another grid if its logarithms are rounded differently.
/// Both answers are proofs, so either may replace the other. Observed differences are up to 5e-6,
/// between processors with and without fused multiply-adds.
inline constexpr double kOfProcessors = 2e-5;

/// Removes the answer's lower bound and turns `exact` into `upper`, because the charges behind the
/// answer may exceed the true cost.
PrivacyAnswer of_charges_that_are_bounds(PrivacyAnswer answer);

}  // namespace privgrad::core
