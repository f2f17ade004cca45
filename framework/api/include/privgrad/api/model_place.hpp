// Finds the model file when the user names either that file or a run directory.
#pragma once

#include <filesystem>
#include <string>

namespace privgrad::api {

/// The model file of a call's operand: the file itself, or the one in the directory of its run.
/// \throws IoError if a directory has none.
std::filesystem::path model_file_of(const std::string& operand);

/// While a run can be resumed, its keys are stored somewhere, and with the keys the noise of the
/// remaining steps could be removed. A model may be passed on only when these keys are gone.
/// \throws PrivacyError if the marker of such a run lies beside the model.
void check_is_over(const std::filesystem::path& model);

}  // namespace privgrad::api
