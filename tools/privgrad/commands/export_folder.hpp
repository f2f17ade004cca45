// Writes a trained model in the form of its initial weights: a public model's folder, or a
// state_dict.
#pragma once

#include "arguments.hpp"

namespace privgrad::tool {

/// `export --format huggingface`.
/// \throws ConfigError for a model whose training did not begin from a public model's folder;
///   IoError if a file cannot be read or written, or the folder's weights have changed since the
///   run; PrivacyError as api::check_is_over().
void export_folder(const Arguments& arguments);

/// `export --format state_dict`: the file of model.weights, with the trained values in its order.
/// \throws ConfigError for a model that did not begin from a file; otherwise as export_folder().
void export_state_dict(const Arguments& arguments);

}  // namespace privgrad::tool
