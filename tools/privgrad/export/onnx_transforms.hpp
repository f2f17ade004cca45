// Translates the transforms of a model into ONNX operations.
#pragma once

#include <string>

#include "onnx_graph.hpp"
#include "privgrad/model/model_use.hpp"

namespace privgrad::tool {

/// Adds the operations that a model's transforms apply to examples.
/// \param features  the value of raw examples, float32, [n, ...].
/// \returns the value that the network sees, float32, [n, ...] of its input.
/// \throws ConfigError naming a transform that cannot be expressed in operations (RowOperations).
std::string add_transforms(OnnxGraph& graph, const core::TrainedModel& model, std::string features);

}  // namespace privgrad::tool
