// The syntax of `privgrad export`, shared with the companion program that writes the file.
#pragma once

#include <string>

#include "arguments.hpp"

namespace privgrad::tool {

Usage export_usage();

/// \throws UsageError if the call requests an unknown format, names no output file, or has an
///   option that its format lacks.
void check_export_call(const Arguments& arguments);

/// \returns "onnx", which the companion program writes, "huggingface" or "state_dict".
std::string export_format(const Arguments& arguments);

}  // namespace privgrad::tool
