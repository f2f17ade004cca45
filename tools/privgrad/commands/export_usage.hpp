// The syntax of `privgrad export`, shared with the companion program that writes the file.
#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

/// The syntax of `export`. Two programs use it: privgrad, which explains and checks the call, and
/// its companion, which does the work.
Usage export_usage();

/// \throws UsageError if the call asks for an unknown format, or names no file to write.
void check_export_call(const Arguments& arguments);

}  // namespace privgrad::tool
