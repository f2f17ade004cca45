// Generates the completion scripts for bash and zsh from the tables of commands.
#pragma once

#include <string>
#include <vector>

#include "command.hpp"

namespace privgrad::tool {

/// \returns a script that completes the program's command line, generated from the tables by which
///   the program also parses it.
std::string bash_completion(const std::vector<Command>& commands);
std::string zsh_completion(const std::vector<Command>& commands);

}  // namespace privgrad::tool
