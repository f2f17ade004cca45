// The networks of known families of public models.
#pragma once

#include <vector>

#include "folder.hpp"
#include "privgrad/model.hpp"

namespace pretrained {

/// A network that ends with the last block's values at each place, and the sources of its tensors.
struct Body {
  std::vector<privgrad::Node> nodes;
  std::vector<privgrad::TensorSource> sources;  ///< Sources of tensors that are stored differently.
  std::size_t mask = 0;            ///< The value that is the mask of the places; 0: none.
  bool begins_with_class = false;  ///< Whether the first place is meant for classification.
  bool is_causal = false;          ///< Whether each place sees only itself and earlier places.
  std::size_t table = 0;           ///< The node of the tokens' table, if there are tokens.
  bool is_tied = false;            ///< Causal models: whether the table is also the output layer.
};

/// \param features  the shape of an example.
/// \throws ConfigError for an unknown family, or a description or shape that does not fit.
Body body_of(Folder& folder, const privgrad::Shape& features);

/// Causal families, defined in decoders.cpp.
Body gpt2(Folder& folder, const privgrad::Shape& features);
Body llama(Folder& folder, const privgrad::Shape& features);
Body mistral(Folder& folder, const privgrad::Shape& features);
Body qwen2(Folder& folder, const privgrad::Shape& features);

}  // namespace pretrained
