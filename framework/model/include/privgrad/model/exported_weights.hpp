// Trained weights in the file of weights from which the model was begun.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/model.hpp"
#include "privgrad/model/model_file.hpp"

namespace privgrad::core {

/// What becomes of the tensors of a model that the file does not have.
enum class Lacking {
  is_left_out = 1,
  is_appended,  ///< Under the model's names and in its order, in the place of unused ones.
};

/// The inverse of fit_weights(): a weights file with the values of a trained model in the places of
/// those from which it was begun. Tensors that have not changed, and those of the file alone, keep
/// their bytes. If one has changed, the metadata are the model's, so that its origin is known to
/// later runs.
/// \param bytes  of the file from which the model was begun, untrusted.
/// \param names  model.weights.map of the run.
/// \throws IoError if a tensor that has changed does not fit, or is not F32 in the file, or if two
///   tensors of the model are from one place of the file.
std::string weights_with(std::string bytes, const ModelFile& model,
                         const std::vector<TensorSource>& sources, const TensorNames& names,
                         Lacking lacking);

/// \returns the indices of the parameter blocks that the file does not have; ascending.
std::vector<std::size_t> lacking_in(std::string_view bytes, const ModelFile& model,
                                    const std::vector<TensorSource>& sources,
                                    const TensorNames& names);

}  // namespace privgrad::core
