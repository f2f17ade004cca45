// Generates manual pages from the syntax and help of the commands.
#pragma once

#include <string>
#include <vector>

#include "command.hpp"

namespace privgrad::tool {

/// Returns the manual page of a command in the macros of man(7), with the content of its --help.
std::string man_page(const Usage& usage);

/// Returns the page privgrad(1), with one line for each command.
std::string man_page(const std::vector<Command>& all);

/// Returns "privgrad-plugins-list" for "plugins list".
std::string man_name(const Usage& usage);

}  // namespace privgrad::tool
