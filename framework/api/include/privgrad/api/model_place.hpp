// Finds the model file when the user names either that file or a run directory.
#pragma once

#include <filesystem>
#include <string>

namespace privgrad::api {

/// The model file of a call's operand: the file itself, or the one in the directory of its run.
/// \throws IoError if a directory has none.
std::filesystem::path model_file_of(const std::string& operand);

}  // namespace privgrad::api
