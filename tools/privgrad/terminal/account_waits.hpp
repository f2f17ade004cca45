// Reports on standard error which process holds the account that this process waits for.
#pragma once

namespace privgrad::tool {

/// From now on, whenever this process waits more than a second for an account, a line on standard
/// error names the process that holds the account.
void say_waits_for_accounts();

}  // namespace privgrad::tool
