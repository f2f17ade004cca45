// Where the program lies that runs this code, as the system knows it.
#pragma once

#include <filesystem>

namespace privgrad::core {

/// The prefix of the installation: above bin/ for the command, _home beside the module of the
/// Python package. It follows from the file from which this code was loaded, whatever arguments and
/// environment say.
/// \throws IoError if the system does not tell which file that is.
std::filesystem::path program_prefix();

}  // namespace privgrad::core
