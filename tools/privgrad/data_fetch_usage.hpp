#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

/// How `data fetch` is called. Two programs read it: privgrad, which explains and checks the call,
/// and the one beside it that does the work.
Usage data_fetch_usage();

/// The most seconds that --timeout takes.
inline constexpr int kMostTimeout = 3600;

}  // namespace privgrad::tool
