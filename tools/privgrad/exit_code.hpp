#pragma once

#include <functional>

namespace privgrad::tool {

/// Calls `action` and turns what it throws into one line on standard error and an exit code: 2 for
/// a wrong call or manifest, 3 refused for privacy, 4 a file or device, 1 anything else.
/// \returns what `action` returned if nothing was thrown.
int with_exit_code(const std::function<int()>& action);

}  // namespace privgrad::tool
