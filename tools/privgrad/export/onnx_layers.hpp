// Translates the layers of a network into ONNX operations.
#pragma once

#include <string>
#include <vector>

#include "onnx_graph.hpp"
#include "privgrad/network.hpp"

namespace privgrad::tool {

/// Adds the layers of a network.
/// \param features  the network's input, float32, [n, ...].
/// \param parameters  in the layout of parameter_blocks(network).
/// \param refused  receives the names of boolean values [n, 1], which mark rows that the layers
///   cannot process.
/// \returns the name of the outputs, float32, [n, outputs].
/// \throws ConfigError for a layer that ONNX operations cannot express.
std::string add_layers(OnnxGraph& graph, const Network& network,
                       const std::vector<float>& parameters, const std::string& features,
                       std::vector<std::string>& refused);

}  // namespace privgrad::tool
