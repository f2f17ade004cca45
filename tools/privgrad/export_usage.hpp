#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

/// How `export` is called. Two programs read it: privgrad, which explains and checks the call, and
/// the one beside it that does the work.
Usage export_usage();

/// \throws UsageError if the call asks for another format, or does not say where to.
void check_export_call(const Arguments& arguments);

}  // namespace privgrad::tool
