#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

/// How `plugins test` is called. Two programs read it: privgrad, which explains and checks the
/// call, and the one beside it that does the work.
Usage plugins_test_usage();

}  // namespace privgrad::tool
