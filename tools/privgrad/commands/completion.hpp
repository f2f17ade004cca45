// Generates the completion scripts for bash and zsh from the tables by which calls are parsed.
#pragma once

#include <string>
#include <vector>

#include "command.hpp"

namespace privgrad::tool {

std::string bash_completion(const std::vector<Command>& commands);
std::string zsh_completion(const std::vector<Command>& commands);

}  // namespace privgrad::tool
