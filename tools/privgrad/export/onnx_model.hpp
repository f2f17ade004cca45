#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>

#include "privgrad/model/model_use.hpp"

namespace privgrad::tool {

/// The version of ONNX's operations, and of its file format, that models are written in: those of
/// ONNX 1.12, the oldest with LayerNormalization.
inline constexpr int kOnnxOpset = 17;
inline constexpr int kOnnxIrVersion = 8;

/// \throws ConfigError if a model of so many bytes does not fit a file of ONNX (2 GiB).
void check_size(std::uintmax_t bytes);

/// A trained model, from raw examples to probabilities, as docs/models.md says: what
/// TrainedModel::predict() and Predictions::probabilities() do, but for roundings of float32.
///
/// Privacy: what the model's file says, which was released; nothing is computed from rows.
/// \throws ConfigError if ONNX has no words for a part of it, or it does not fit a file of that format
///   (2 GiB).
onnx::ModelProto onnx_model(const core::TrainedModel& model);

}  // namespace privgrad::tool
