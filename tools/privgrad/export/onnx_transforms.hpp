// Translates the transforms of a model into ONNX operations.
#pragma once

#include <string>

#include "onnx_graph.hpp"
#include "privgrad/model/model_use.hpp"

namespace privgrad::tool {

/// Adds the operations that a model's transforms apply to examples.
/// \param features  the raw examples, float32, [n, ...].
/// \returns the network's input, float32, [n, ...].
/// \throws ConfigError that names a transform without such operations
///   (Transform::row_operations()).
std::string add_transforms(OnnxGraph& graph, const core::TrainedModel& model, std::string features);

}  // namespace privgrad::tool
