// Says on standard error which process holds an account that a call is waiting for.
#pragma once

namespace privgrad::tool {

/// From now on, whenever this process waits for an account for more than a second, a line says
/// which process holds the account.
void say_waits_for_accounts();

}  // namespace privgrad::tool
