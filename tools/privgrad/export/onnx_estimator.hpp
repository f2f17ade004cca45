// Adds to a model's graph what an estimator for scikit-learn does before and after the model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "onnx_graph.hpp"
#include "privgrad/model/model_file.hpp"

namespace privgrad::tool {

/// The file that `--estimator` names, as JSON: {"low", "high", "otherwise", "values", "classes"}.
struct Estimator {
  std::vector<double> low,
      high;  ///< Bounds of each feature: values are clipped to them, then mapped to [-1, 1].
  /// For each feature, the replacement for values that are not finite; empty: a row with such a
  /// value gets no prediction.
  std::vector<double> otherwise;
  /// For real targets: the target for an output of -1, and the difference between the targets for 1
  /// and -1.
  std::optional<std::pair<double, double>> values;
  std::vector<std::string> classes;  ///< The names of the classes; empty for real targets.
};

/// \throws IoError if the file cannot be read; ConfigError if it does not describe an estimator of
///   this model.
Estimator read_estimator(const std::filesystem::path& file, const core::ModelFile& model);

/// \param features  the rows as the estimator receives them, float32, [n, features].
/// \returns the rows as the estimator's model receives them, float32, [n, features].
std::string add_scaling(OnnxGraph& graph, const Estimator& estimator, const std::string& features);

/// \param values  the model's outputs, float32, [n, 1]. \returns the estimator's predictions.
std::string add_unscaling(OnnxGraph& graph, const Estimator& estimator, const std::string& values);

}  // namespace privgrad::tool
