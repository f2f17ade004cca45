// Turns exceptions into an error line and the documented exit codes.
#pragma once

#include <functional>

namespace privgrad::tool {

enum ExitCode { kOther = 1, kWrongCall = 2, kRefusedForPrivacy = 3, kInputOutput = 4 };

/// Calls `action` and turns its exception into one line on standard error and an exit code: 2 for a
/// wrong call or manifest, 3 for a refusal for privacy, 4 for a file or device, 1 for anything
/// else.
/// \returns the result of `action` if nothing was thrown.
int with_exit_code(const std::function<int()>& action);

}  // namespace privgrad::tool
