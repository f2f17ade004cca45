// The syntax of `privgrad data fetch`, shared with the companion program that downloads.
#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

/// The syntax of `data fetch`. Two programs use it: privgrad, which explains and checks the call,
/// and its companion, which does the work.
Usage data_fetch_usage();

/// The largest --timeout, in seconds.
inline constexpr int kMostTimeout = 3600;

}  // namespace privgrad::tool
