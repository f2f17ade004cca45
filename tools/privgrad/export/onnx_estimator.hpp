// What an estimator for scikit-learn does around its model, as part of the model's graph.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "onnx_graph.hpp"
#include "privgrad/model/model_file.hpp"

namespace privgrad::tool {

/// What `--estimator` names, as JSON: {"low", "high", "otherwise", "values", "classes"}.
struct Estimator {
  std::vector<double> low,
      high;  ///< Of each feature: it is clipped to them, and they become -1 and 1.
  /// What a feature that is not finite becomes, for each; none: such a row has no prediction.
  std::vector<double> otherwise;
  /// Of real targets: what an output of -1 means, and by how much more one of 1 does.
  std::optional<std::pair<double, double>> values;
  std::vector<std::string> classes;  ///< Their names; of real targets none.
};

/// \throws IoError  the file cannot be read; ConfigError  it is not that of an estimator of this model.
Estimator read_estimator(const std::filesystem::path& file, const core::ModelFile& model);

/// \param features  the value of rows as the estimator is given them, float32, [n, features].
/// \returns what its model is given, float32, [n, features].
std::string add_scaling(OnnxGraph& graph, const Estimator& estimator, const std::string& features);

/// \param values  of the model, float32, [n, 1]. \returns those of the estimator.
std::string add_unscaling(OnnxGraph& graph, const Estimator& estimator, const std::string& values);

}  // namespace privgrad::tool
