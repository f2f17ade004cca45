#pragma once

#include <string>

#include "onnx_graph.hpp"
#include "privgrad/model/model_use.hpp"

namespace privgrad::tool {

/// Adds what the transforms of a model do to examples.
/// \param features  the value of raw examples, float32, [n, ...].
/// \returns the value of what the network sees, float32, [n, ...] of its input.
/// \throws ConfigError naming a transform that cannot be told in operations (RowOperations).
std::string add_transforms(OnnxGraph& graph, const core::TrainedModel& model, std::string features);

}  // namespace privgrad::tool
