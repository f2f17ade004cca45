// Hands the process over to a companion program in lib/privgrad/ that does the actual work.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace privgrad::tool {

/// Becomes a program that lies beside the command, in lib/privgrad/, for libraries and powers that
/// not every command should carry. It replaces this process: it has the same input and output, and
/// its exit code is the command's.
/// \param words  its arguments, without its name.
/// \param remedy  advice for the error if it is missing.
/// \throws IoError if it is missing or cannot be started.
[[noreturn]] void become_companion(
    const std::string& name, std::vector<std::string> words,
    const std::string& remedy = "build all of PrivGrad (make build), or install it again");

/// Runs a companion as a child process with the same input and output, and waits for it.
/// \param errors  a new file, for what it writes to standard error.
/// \returns its exit code.
/// \throws IoError as above; PluginError if a signal ended it.
int run_companion(const std::string& name, std::vector<std::string> words,
                  const std::filesystem::path& errors);

}  // namespace privgrad::tool
