// Writes trained weights into the weights file from which training began.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/model.hpp"
#include "privgrad/model/model_file.hpp"

namespace privgrad::core {

/// What happens to tensors of the model that the file lacks.
enum class Lacking {
  is_left_out = 1,
  is_appended,  ///< By its name in the model; replaces an unused tensor of this name.
};

/// The inverse of fit_weights(): returns the weights file with the trained model's values in place
/// of the initial values. Tensors that have not changed, or that only the file has, keep their
/// bytes. If any tensor has changed, the file gets the model's metadata, so that later runs know
/// its origin.
/// \param bytes  the content of the file from which training began; not trusted.
/// \param names  model.weights.map of the run.
/// \throws IoError for an invalid file; if a tensor that has changed does not fit, or is not F32 in
///   the file; or if two tensors of the model would need the same place or name in the file.
std::string weights_with(std::string bytes, const ModelFile& model,
                         const std::vector<TensorSource>& sources, const TensorNames& names,
                         Lacking lacking);

/// \returns the indices of the parameter blocks that do not come from the file; ascending.
std::vector<std::size_t> lacking_in(std::string_view bytes, const ModelFile& model,
                                    const std::vector<TensorSource>& sources,
                                    const TensorNames& names);

}  // namespace privgrad::core
