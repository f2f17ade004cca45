// The place of the program that runs this code, according to the operating system.
#pragma once

#include <filesystem>

namespace privgrad::core {

/// The prefix of the installation: the folder above bin/ for the command, _home beside the module
/// for the Python package. It depends only on the file from which this code was loaded, not on
/// arguments or the environment.
/// \throws IoError if the system does not tell which file that is.
std::filesystem::path program_prefix();

}  // namespace privgrad::core
