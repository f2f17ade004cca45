// The syntax of `privgrad data fetch`, shared with the companion program that downloads.
#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

/// Returns the syntax of `data fetch`. Two programs use it: privgrad explains and checks the call,
/// and the companion program downloads.
Usage data_fetch_usage();

/// The largest --timeout, in seconds.
inline constexpr int kMostTimeout = 3600;

}  // namespace privgrad::tool
