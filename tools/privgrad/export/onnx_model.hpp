// Exports a trained model as an ONNX model, from raw examples to probabilities.
#pragma once

#include <onnx/onnx_pb.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "onnx_estimator.hpp"
#include "privgrad/model/model_use.hpp"

namespace privgrad::tool {

/// The versions of ONNX's operations and of its file format that models are written in: those of
/// ONNX 1.12, the oldest with LayerNormalization.
inline constexpr int kOnnxOpset = 17;
inline constexpr int kOnnxIrVersion = 8;
/// The version of the operations for tables, in the domain ai.onnx.ml.
inline constexpr int kOnnxMlOpset = 3;

/// Which a graph has, of these: the class of a row of a table, and its probabilities or values.
inline constexpr std::array<std::string_view, 3> kOutputs = {"probabilities", "values", "class"};

/// \throws ConfigError if a model of so many bytes does not fit an ONNX file (2 GiB).
void check_size(std::uintmax_t bytes);

/// A trained model, from raw examples to probabilities, as docs/models.md describes it: the same as
/// TrainedModel::predict() and Predictions::probabilities(), up to roundings of float32.
///
/// Privacy: the content of the model's file, which was released; nothing is computed from rows.
/// \param estimator  nullptr: the model is none of an estimator; else one of arrays.
/// \throws ConfigError if ONNX cannot express a part of it, or it exceeds an ONNX file (2 GiB).
onnx::ModelProto onnx_model(const core::TrainedModel& model, const Estimator* estimator);

}  // namespace privgrad::tool
