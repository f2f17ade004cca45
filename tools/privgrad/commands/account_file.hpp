// The part of `privgrad account` for a budget file that many runs on the same data share.
#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

/// Whether the call is about a shared budget file; do_account_file() carries it out: --open creates
/// the file, --ledger shows it, and --close settles the reservation that a killed run left open.
bool is_about_account_file(const Arguments& arguments);
int do_account_file(const Arguments& arguments);

}  // namespace privgrad::tool
