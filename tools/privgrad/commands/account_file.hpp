// The part of `privgrad account` for a budget file that many runs on the same data share.
#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

bool is_about_account_file(const Arguments& arguments);
/// Carries out a call about a shared budget file: --open creates the file, --ledger shows it, and
/// --close settles the reservation that a killed run left open.
int do_account_file(const Arguments& arguments);

}  // namespace privgrad::tool
