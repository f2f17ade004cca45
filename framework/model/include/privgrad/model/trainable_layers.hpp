// Which layers of a network a manifest trains, adapts or freezes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/model/initial_weights.hpp"
#include "privgrad/network.hpp"

namespace privgrad::core {

/// A layer with parameters.
struct TrainableLayer {
  std::string name;  ///< "layers.4".
  std::size_t index = 0;
  std::vector<std::string> tensors;
  bool is_trained = false;  ///< All of its tensors are.
  bool is_adapted =
      false;  ///< Its weight has an adapter (model.lora), and nothing else is trained.
};

/// "layers.4" for "layers.4.weight"; tensors of an opaque layer may have dots of their own.
std::string layer_of(const std::string& tensor);

/// All layers with parameters, as model.train and model.lora mark them. All are trained where
/// neither says anything.
/// \throws ManifestError for a pattern that names no layer, a part of one, or one that cannot be
///   adapted; for a layer that both name.
std::vector<TrainableLayer> trained_layers(const Manifest& manifest, const Network& network);

/// Whether some layer after the first ones, which are frozen, is not trained as a whole.
bool trains_in_part(const Manifest& manifest, const Network& network, std::size_t frozen_layers);

}  // namespace privgrad::core
