// Finds the layers of a network that a manifest trains, adapts or freezes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/model/initial_weights.hpp"
#include "privgrad/network.hpp"

namespace privgrad::core {

struct TrainableLayer {
  std::string name;  ///< "layers.4".
  std::size_t index = 0;
  std::vector<std::string> tensors;
  bool is_trained = false;  ///< Whether all of its tensors are trained.
  /// Whether its weight has an adapter (model.lora), and nothing else of the layer is trained.
  bool is_adapted = false;
};

/// Returns all layers with parameters, as marked by model.train and model.lora. If neither key is
/// given, all layers are trained.
/// \throws ManifestError for a pattern that names only a part of a layer, or no layer that the key
///   can train or adapt; and for a layer that both keys name.
std::vector<TrainableLayer> trained_layers(const Manifest& manifest, const Network& network);

/// Whether some layer after the frozen first layers is not trained as a whole.
bool trains_in_part(const Manifest& manifest, const Network& network, std::size_t frozen_layers);

}  // namespace privgrad::core
