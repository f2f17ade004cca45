// The options --accountant and --adjacency, for commands that account without a manifest.
#pragma once

#include <string>

#include "arguments.hpp"
#include "privgrad/api/accounting.hpp"
#include "privgrad/catalog.hpp"

namespace privgrad::tool {

Option accountant_option();
Option adjacency_option();

/// Returns the value of --adjacency, or its default.
Adjacency adjacency_of(const Arguments& arguments);

using api::AccountantCall;

/// Returns the accountant that --accountant and --adjacency select.
/// \throws ConfigError for an unknown accountant or adjacency, or parameters that do not fit;
///   UsageError without --accountant.
AccountantCall accountant_call(const Arguments& arguments, const Catalog& catalog);

/// The numbers from `low` to `high`; each end belongs to the interval only if its flag says so.
struct Interval {
  double low, high;
  bool with_low = false, with_high = false;
};

/// \returns `text` as a finite number of the interval.
/// \throws UsageError that names the option and the allowed values.
double number_in(const std::string& option, const std::string& text, const Interval& allowed);

}  // namespace privgrad::tool
