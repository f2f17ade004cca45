// The options --accountant and --adjacency, for commands that account without a manifest.
#pragma once

#include <string>

#include "arguments.hpp"
#include "privgrad/calls/accounting.hpp"
#include "privgrad/catalog.hpp"

namespace privgrad::tool {

/// The options --accountant and --adjacency.
Option accountant_option();
Option adjacency_option();

using calls::AccountantCall;

/// The accountant that --accountant and --adjacency ask for.
/// \throws ConfigError for an unknown accountant, parameters that do not fit it, or no adjacency.
AccountantCall accountant_call(const Arguments& arguments, const Catalog& catalog);

/// \returns `text` as a finite number inside (low, high), or [low, high) if `include_low`.
/// \throws UsageError naming the option and what is allowed.
double number_in(const std::string& option, const std::string& text, double low, double high,
                 bool include_low = false);

}  // namespace privgrad::tool
