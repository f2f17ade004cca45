// The networks of known families of public models.
#pragma once

#include <string>
#include <vector>

#include "folder.hpp"
#include "privgrad/model.hpp"

namespace pretrained {

/// A network up to the values at each place behind the last block, and where its tensors are.
struct Body {
  std::vector<privgrad::Node> nodes;
  std::vector<privgrad::TensorSource> sources;  ///< Of tensors that are stored otherwise.
  std::size_t mask = 0;            ///< The value that is the mask of the places; 0: none.
  bool begins_with_class = false;  ///< Whether the first place is meant to be classified.
  bool is_causal = false;          ///< Whether each place sees only earlier ones and itself.
  std::size_t table = 0;           ///< The node of the tokens' table, if there are tokens.
  bool is_tied = false;            ///< Of causal models: whether the table is the output layer.
};

/// \param features  the shape of an example.
/// \throws ConfigError for a family that is not known, or a description or shape that does not fit.
Body body_of(Folder& folder, const privgrad::Shape& features);

/// Families whose places see only earlier ones: decoders.cpp.
Body gpt2(Folder& folder, const privgrad::Shape& features);
Body llama(Folder& folder, const privgrad::Shape& features);
Body mistral(Folder& folder, const privgrad::Shape& features);
Body qwen2(Folder& folder, const privgrad::Shape& features);

}  // namespace pretrained
