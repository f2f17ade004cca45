// Exports a trained model as an ONNX model, from raw examples to probabilities.
#pragma once

#include <onnx/onnx_pb.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "onnx_estimator.hpp"
#include "privgrad/model/model_use.hpp"

namespace privgrad::tool {

/// The versions of ONNX's operations and of the file format that the exporter writes, from ONNX
/// 1.12, the oldest version with LayerNormalization.
inline constexpr int kOnnxOpset = 17;
inline constexpr int kOnnxIrVersion = 8;
/// The version of the operations for tables, in the domain ai.onnx.ml.
inline constexpr int kOnnxMlOpset = 3;

/// The names of outputs: each graph has probabilities or values, and some also the class of each
/// row.
inline constexpr std::array<std::string_view, 3> kOutputs = {"probabilities", "values", "class"};

/// \throws ConfigError if a model of this many bytes does not fit into an ONNX file (2 GiB).
void check_size(std::uintmax_t bytes);

/// Exports a trained model, from raw examples to probabilities, as docs/models.md describes it. Its
/// results equal TrainedModel::predict() and Predictions::probabilities(), up to rounding to
/// float32.
///
/// Privacy: the graph contains only the model's file, which was released; nothing is computed from
/// rows.
/// \param estimator  nullptr if the model belongs to no estimator. The model of an estimator reads
///   arrays.
/// \throws ConfigError if ONNX cannot express a part of the model, or if the model exceeds the size
///   of an ONNX file (2 GiB).
onnx::ModelProto onnx_model(const core::TrainedModel& model, const Estimator* estimator);

}  // namespace privgrad::tool
