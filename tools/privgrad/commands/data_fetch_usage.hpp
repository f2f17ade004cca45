// The syntax of `privgrad data fetch`, shared with the companion program that downloads.
#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

Usage data_fetch_usage();

/// The largest --timeout, in seconds.
inline constexpr int kMostTimeout = 3600;

}  // namespace privgrad::tool
