// Says on standard error whom a call waits for at an account that another process holds.
#pragma once

namespace privgrad::tool {

/// From now on, whatever this process waits for an account for more than a second, a line says who
/// holds it.
void say_waits_for_accounts();

}  // namespace privgrad::tool
