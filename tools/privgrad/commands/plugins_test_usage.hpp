// The syntax of `privgrad plugins test`, shared with the companion program that examines plugins.
#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

Usage plugins_test_usage();

/// \throws IoError if there is no such file; UsageError if its name is not a plugin's.
void check_plugin_file(const std::string& given);

}  // namespace privgrad::tool
