// Checks an accountant's answer before anything is decided by it.
#pragma once

#include <string_view>

#include "privgrad/accountant.hpp"

namespace privgrad::core {

/// The answer, if it can be one: an accountant is a plugin, and what it says decides what is
/// released. Its note goes into files: U+FFFD stands for what is no UTF-8 in it.
/// \param name  of the accountant, for the error.
/// \throws PluginError if the value is NaN or negative, or below the lower bound that comes with
///   it.
PrivacyAnswer checked(PrivacyAnswer answer, std::string_view name);

/// The same for an accountant that guards a budget.
/// \throws PrivacyError if the answer is an estimate.
PrivacyAnswer checked_guard(PrivacyAnswer answer, std::string_view name);

/// The answer of an accountant whose charges are more than what is spent, or may be: not exact, and
/// without a lower bound.
PrivacyAnswer of_charges_that_are_bounds(PrivacyAnswer answer);

}  // namespace privgrad::core
