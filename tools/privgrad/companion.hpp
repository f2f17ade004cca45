#pragma once

#include <string>
#include <vector>

namespace privgrad::tool {

/// Becomes a program that lies beside the command, in lib/privgrad/: what not every command should
/// carry. It goes on with this process: the same input and output, and its exit code is the
/// command's.
/// \param words  how it is called, without its name.
/// \param remedy  what to do if it is missing, for the error.
/// \throws IoError if it is missing or cannot be started.
[[noreturn]] void become_companion(
    const std::string& name, std::vector<std::string> words,
    const std::string& remedy = "build all of PrivGrad (make build), or install it again");

}  // namespace privgrad::tool
