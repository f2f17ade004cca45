// The summary that `privgrad run` prints at the end, and its warnings about weak guarantees.
#pragma once

#include <string>

#include "privgrad/train/run.hpp"

namespace privgrad::tool {

/// \throws IoError if standard output cannot be written.
void print_run_report(const core::Plan& plan, const core::RunResult& result);

/// Warns on standard error if the guarantee is weak; in research mode, also shows the data source's
/// remarks.
void warn_of(const core::Plan& plan);

/// Lists in one line all results that were computed from private rows without a charge; "nothing"
/// if there are none.
std::string unaccounted_text(const core::Plan& plan);

/// Returns text like "4.0000 (upper bound by zcdp)". The printed value is never below the true one,
/// however many digits are shown.
std::string epsilon_text(const core::AccountantReport& report);

}  // namespace privgrad::tool
