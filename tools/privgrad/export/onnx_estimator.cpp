#include "onnx_estimator.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "privgrad/error.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostEstimatorBytes = std::size_t{1} << 30;

/// \returns the problem with the estimator; "" if there is none.
std::string problem_of(const Estimator& estimator, const core::ModelFile& model) {
  const std::size_t width = estimator.low.size();
  if (model.input.features != Shape{width} || estimator.high.size() != width)
    return "its bounds are not those of the model's features";
  if (!estimator.otherwise.empty() && estimator.otherwise.size() != width)
    return "otherwise does not have a number for each feature";
  for (std::size_t i = 0; i < width; ++i) {
    if (!(estimator.low[i] <= estimator.high[i]) ||
        !std::isfinite(estimator.high[i] - estimator.low[i]))
      return "a lower bound is above its upper one";
  }
  if (estimator.classes.size() != model.classes.size())
    return "its classes are not those of the model";
  if (estimator.values.has_value() != model.classes.empty())
    return "values are only for real targets";
  return "";
}

}  // namespace

Estimator read_estimator(const std::filesystem::path& file, const core::ModelFile& model) {
  Estimator estimator;
  std::string problem;
  try {
    const Json json = Json::parse(core::read_whole(file, kMostEstimatorBytes));
    json.at("low").get_to(estimator.low);
    json.at("high").get_to(estimator.high);
    json.at("otherwise").get_to(estimator.otherwise);
    json.at("classes").get_to(estimator.classes);
    if (!json.at("values").is_null())
      estimator.values = json.at("values").get<std::pair<double, double>>();
    problem = problem_of(estimator, model);
  } catch (const Json::exception& unexpected) {
    problem = unexpected.what();
  }
  if (!problem.empty())
    throw ConfigError(file.string() + ": does not describe an estimator of this model: " + problem);
  return estimator;
}

std::string add_scaling(OnnxGraph& graph, const Estimator& estimator, const std::string& features) {
  const std::size_t width = estimator.low.size();
  const auto add = [&](const char* operation, const std::string& value,
                       const std::vector<double>& with) {
    return graph.add(operation, {value, graph.constant(with, {with.size()})});
  };
  std::vector<double> widths(width);
  for (std::size_t i = 0; i < width; ++i) {
    const double between = estimator.high[i] - estimator.low[i];
    widths[i] = between > 0.0 ? between : 1.0;
  }
  // Computes in double, as the estimator does.
  std::string value = graph.cast(features, onnx::TensorProto::DOUBLE);
  value = add("Min", add("Max", value, estimator.low), estimator.high);
  value = add("Div", add("Sub", value, estimator.low), widths);
  value = add("Sub", add("Mul", value, {2.0}), {1.0});
  std::vector<float> others(estimator.otherwise.begin(), estimator.otherwise.end());
  if (others.empty()) others.assign(width, std::numeric_limits<float>::quiet_NaN());
  const std::string is_none =
      graph.add("Or", {graph.add("IsNaN", {features}), graph.add("IsInf", {features})});
  return graph.add("Where", {is_none, graph.constant(others, {width}),
                             graph.cast(value, onnx::TensorProto::FLOAT)});
}

std::string add_unscaling(OnnxGraph& graph, const Estimator& estimator, const std::string& values) {
  const auto& [low, width] = *estimator.values;
  const auto with = [&](const char* operation, const std::string& value, double number) {
    return graph.add(operation, {value, graph.constant(std::span(&number, 1), {})});
  };
  const std::string value = graph.cast(values, onnx::TensorProto::DOUBLE);
  const std::string share = with("Div", with("Add", value, 1.0), 2.0);
  return graph.cast(with("Add", with("Mul", share, width), low), onnx::TensorProto::FLOAT);
}

}  // namespace privgrad::tool
