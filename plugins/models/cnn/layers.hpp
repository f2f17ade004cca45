// The parameter `layers` of the model cnn: reads a list of layers from the manifest.
#pragma once

#include <vector>

#include "privgrad/network.hpp"
#include "privgrad/params.hpp"

namespace privgrad::cnn {

/// The parameter `layers`: a list of objects, each with its kind and the keys that the kind needs.
ParamSpec layers_parameter();

/// \returns the layers as the manifest lists them, without the output layer.
/// \throws ConfigError naming the first layer that lacks a key, or has one that its kind does not.
std::vector<Layer> layers_from(const std::vector<Params>& given);

}  // namespace privgrad::cnn
