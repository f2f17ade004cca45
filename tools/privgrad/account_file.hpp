#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

/// `privgrad account` of a file that many runs share: --open makes one, --ledger shows one, and
/// --close settles what a run that was killed has left open.
bool is_about_account_file(const Arguments& arguments);
int do_account_file(const Arguments& arguments);

}  // namespace privgrad::tool
