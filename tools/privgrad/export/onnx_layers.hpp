// Translates the layers of a network into ONNX operations.
#pragma once

#include <string>
#include <vector>

#include "onnx_graph.hpp"
#include "privgrad/network.hpp"

namespace privgrad::tool {

/// Adds the layers of a network.
/// \param features  the value that enters it, float32, [n, ...].
/// \param parameters  laid out as parameter_blocks(network) says.
/// \param refused  receives the names of boolean values, [n, 1]: rows that layers cannot take.
/// \returns the value of the outputs, float32, [n, outputs].
/// \throws ConfigError for a layer that ONNX has no operations for.
std::string add_layers(OnnxGraph& graph, const Network& network,
                       const std::vector<float>& parameters, const std::string& features,
                       std::vector<std::string>& refused);

}  // namespace privgrad::tool
