// The summary that `privgrad run` prints at its end, and its warnings about weak guarantees.
#pragma once

#include <string>

#include "privgrad/train/run.hpp"

namespace privgrad::tool {

/// Prints the summary of a run at its end, for people.
/// \throws IoError
void print_run_report(const core::Plan& plan, const core::RunResult& result);

/// Warns on standard error if the guarantee promises little.
void warn_of(const core::Plan& plan);

/// Everything computed from private rows and charged nowhere, as one line; "nothing" for none.
std::string unaccounted_text(const core::Plan& plan);

/// "4.0000 (upper bound by zcdp)": never below the value, however many digits are shown.
std::string epsilon_text(const core::AccountantReport& report);

}  // namespace privgrad::tool
