// Finds the command's installation, and starts companion programs from it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace privgrad::tool {

/// Returns the folder that contains the command's bin/, lib/ and share/: the prefix of an
/// installation, or a build folder.
/// \throws std::filesystem::filesystem_error if the process cannot find its own file.
std::filesystem::path installation();

/// Replaces this process with a companion program in lib/privgrad/. Companion programs have
/// libraries and abilities that other commands should not have. The companion inherits input and
/// output, and its exit code becomes the exit code of the command.
/// \param words  the companion's arguments, without its name.
/// \param remedy  the advice to print if the companion is missing.
/// \throws IoError if the companion is missing or cannot be started.
[[noreturn]] void become_companion(
    const std::string& name, std::vector<std::string> words,
    const std::string& remedy = "build all of PrivGrad (make build), or install it again");

/// Runs a companion as a child process with the same input and output, and waits for it. The
/// companion is killed when this process ends.
/// \param errors  a new file for its standard error.
/// \returns its exit code.
/// \throws IoError if the companion is missing or cannot be started; PluginError if a signal ended
///   the companion.
int run_companion(const std::string& name, std::vector<std::string> words,
                  const std::filesystem::path& errors);

}  // namespace privgrad::tool
