// The part of `privgrad account` about a budget file that many runs on the same data share.
#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

/// `privgrad account` for a file that many runs share: --open creates one, --ledger shows one, and
/// --close settles the reservation that a killed run has left open.
bool is_about_account_file(const Arguments& arguments);
int do_account_file(const Arguments& arguments);

}  // namespace privgrad::tool
