// Writes a trained model into the folder of the public model from which its training began.
#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

/// `export --format huggingface`.
/// \throws ConfigError for a model that was not begun from such a folder; IoError if a file cannot
///   be read or written, or the folder's weights are no longer those of the run; PrivacyError as
///   api::check_is_over().
void export_folder(const Arguments& arguments);

}  // namespace privgrad::tool
