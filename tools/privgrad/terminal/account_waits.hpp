// Reports on standard error which process holds an account for which a call waits.
#pragma once

namespace privgrad::tool {

/// From now on, whenever this process waits for an account for more than a second, prints a line
/// with the process that holds it.
void say_waits_for_accounts();

}  // namespace privgrad::tool
