// The syntax of `privgrad export`, shared with the companion program that writes the file.
#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

/// The syntax of `export`. Two programs use it: privgrad explains and checks the call, and the
/// companion program writes the file.
Usage export_usage();

/// \throws UsageError if the call asks for an unknown format or names no output file.
void check_export_call(const Arguments& arguments);

/// Whether the call asks for the folder of a public model, which needs no companion program.
bool is_for_folder(const Arguments& arguments);

}  // namespace privgrad::tool
