// Finds the model file when the user names either that file or a run directory.
#pragma once

#include <filesystem>
#include <string>

namespace privgrad::api {

/// Returns the model file of a call's operand: the file itself, or the model file in the given run
/// directory.
/// \throws IoError if the directory has no model.
std::filesystem::path model_file_of(const std::string& operand);

/// Checks that the run of a model has ended. While a run can be resumed, its keys are stored
/// somewhere, and anyone with these keys could remove the noise of the remaining steps, so the
/// model must not be passed on yet.
/// \throws PrivacyError if a file beside the model marks its run as one that can be resumed.
void check_is_over(const std::filesystem::path& model);

}  // namespace privgrad::api
