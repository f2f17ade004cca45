#include "onnx_model.hpp"

#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "onnx_columns.hpp"
#include "onnx_graph.hpp"
#include "onnx_layers.hpp"
#include "onnx_transforms.hpp"
#include "privgrad/abi.hpp"
#include "privgrad/error.hpp"

namespace privgrad::tool {
namespace {

/// The largest size of a protobuf message.
constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max();

/// Marks the rows of `value`, float32 [n, ...], that are not finite: boolean, [n, 1].
std::string not_finite(OnnxGraph& graph, const std::string& value, const Shape& shape) {
  const std::string flat = shape.size() == 1 ? value : graph.reshape(value, {element_count(shape)});
  const std::string any = graph.add("Or", {graph.add("IsNaN", {flat}), graph.add("IsInf", {flat})});
  const std::string largest = graph.add("ReduceMax", {graph.cast(any, onnx::TensorProto::FLOAT)},
                                        {{"axes", std::vector<std::int64_t>{1}}});
  return graph.add("Greater", {largest, graph.scalar(0.5f)});
}

/// Returns the probabilities of the loss, computed from the outputs as in Predictions.
std::string probabilities(OnnxGraph& graph, Loss loss, const std::string& outputs) {
  const std::int64_t columns = 1;
  if (loss == Loss::cross_entropy) return graph.add("Softmax", {outputs}, {{"axis", columns}});
  const std::string first = graph.add("Sigmoid", {graph.add("Neg", {outputs})});
  return graph.add("Concat", {first, graph.add("Sigmoid", {outputs})}, {{"axis", columns}});
}

/// Adds the name of each row's class, [n]; "" for a row without a class.
/// \param refused  boolean, [n, 1]: the rows without a prediction.
void add_class(OnnxGraph& graph, const core::ModelFile& file, const std::string& outputs,
               const std::string& refused) {
  // Chooses the class like Predictions::predicted().
  const std::string place = file.network.loss == Loss::logistic
                                ? graph.cast(graph.add("Greater", {outputs, graph.scalar(0.0f)}),
                                             onnx::TensorProto::INT64)
                                : graph.add("ArgMax", {outputs}, {{"axis", std::int64_t{1}}});
  const std::string name =
      graph.add("Gather", {graph.constant(file.classes, {file.classes.size()}), place});
  const std::string none = graph.constant(std::vector<std::string>{""}, {});
  const std::int64_t all = -1;
  graph.add("Reshape",
            {graph.add("Where", {refused, none, name}), graph.constant(std::span(&all, 1), {1})},
            {}, "class");
  graph.add_output("class", {}, onnx::TensorProto::STRING);
}

/// Adds the inputs and, for a table, the operations that turn columns into features.
/// \param refused  as for add_columns().
/// \returns the raw examples, float32.
std::string add_inputs(OnnxGraph& graph, const core::ModelFile& file,
                       const std::vector<Column>& saved, const Estimator* estimator,
                       std::vector<std::string>& refused) {
  const Shape& shape = file.input.features;
  std::string features = "features";
  if (saved.empty()) {
    graph.add_input(features, shape);
    if (estimator == nullptr) return features;
    features = add_scaling(graph, *estimator, features);
  } else {
    features = add_columns(graph, saved, refused);
  }
  // The raw features are checked here, because a transform may drop a feature.
  refused.push_back(not_finite(graph, features, shape));
  return features;
}

void add_graph(onnx::GraphProto& proto, const core::TrainedModel& model,
               const std::vector<Column>& saved, const Estimator* estimator) {
  const Network& network = model.file().network;
  const bool has_probabilities = network.input.classes > 0 && network.loss != Loss::squared;
  OnnxGraph graph(proto);
  proto.set_name("model");
  std::vector<std::string> refused;
  const std::string features = add_inputs(graph, model.file(), saved, estimator, refused);
  const std::string entering = add_transforms(graph, model, features);
  // A runtime's ReLU or maximum may turn NaN into a number, so these rows become NaN at the end.
  refused.push_back(not_finite(graph, entering, network.input.features));
  const std::string outputs =
      add_layers(graph, network, model.file().parameters, entering, refused);
  const std::size_t width = output_count(network);
  std::string result = outputs;
  const bool has_class = (!saved.empty() || estimator != nullptr) && network.input.classes > 0;
  if (has_probabilities || has_class) refused.push_back(not_finite(graph, outputs, {width}));
  if (has_probabilities) {
    result = probabilities(graph, network.loss, outputs);
  }
  if (estimator != nullptr && estimator->values) result = add_unscaling(graph, *estimator, result);
  std::string any = refused.front();
  for (std::size_t i = 1; i < refused.size(); ++i) any = graph.add("Or", {any, refused[i]});
  const char* name = has_probabilities ? "probabilities" : "values";
  graph.add("Where", {any, graph.scalar(std::numeric_limits<float>::quiet_NaN()), result}, {},
            name);
  graph.add_output(name, {has_probabilities ? network.input.classes : width});
  if (has_class) add_class(graph, model.file(), outputs, any);
}

/// Adds the model file's entries about the model's origin and privacy. Entries about its
/// application are left out, because the graph replaces them.
void add_metadata(onnx::ModelProto& proto, const core::ModelFile& file) {
  const std::set<std::string> applied{"model_format", "input", "preprocessing",
                                      "network",      "model", "backend"};
  for (const auto& [key, value] : file.metadata) {
    if (applied.contains(key)) continue;
    onnx::StringStringEntryProto& entry = *proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  const auto statement = file.metadata.find("statement");
  if (statement != file.metadata.end()) proto.set_doc_string(statement->second);
}

/// \throws PluginError if the graph breaks ONNX's rules, or has other shapes than declared.
void check_by_onnx(const onnx::ModelProto& proto) {
  try {
    onnx::checker::check_model(proto);
    onnx::ModelProto inferred = proto;
    onnx::ShapeInferenceOptions options;
    options.check_type = true;
    options.error_mode = 1;  // errors are thrown
    onnx::shape_inference::InferShapes(inferred, onnx::OpSchemaRegistry::Instance(), options);
  } catch (const std::exception& problem) {
    throw PluginError(std::string("the graph is not a valid ONNX model: ") + problem.what());
  }
}

}  // namespace

void check_size(std::uintmax_t bytes) {
  if (bytes <= kMostBytes) return;
  throw ConfigError(
      "the model cannot be exported: it is larger than 2 GiB, the limit of ONNX files");
}

onnx::ModelProto onnx_model(const core::TrainedModel& model, const Estimator* estimator) {
  check_size(model.file().parameters.size() * sizeof(float));
  onnx::ModelProto proto;
  proto.set_ir_version(kOnnxIrVersion);
  proto.set_producer_name("privgrad");
  proto.set_producer_version(PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(
      PRIVGRAD_VERSION_MINOR) "." PRIVGRAD_TEXT(PRIVGRAD_VERSION_PATCH));
  onnx::OperatorSetIdProto& opset = *proto.add_opset_import();
  opset.set_domain("");
  opset.set_version(kOnnxOpset);
  const std::vector<Column> saved = saved_columns(model.file());
  if (!saved.empty()) {
    if (estimator != nullptr)
      throw ConfigError(
          "--estimator: the model takes a table, but an estimator's model takes an array");
    onnx::OperatorSetIdProto& of_tables = *proto.add_opset_import();
    of_tables.set_domain("ai.onnx.ml");
    of_tables.set_version(kOnnxMlOpset);
  }
  add_graph(*proto.mutable_graph(), model, saved, estimator);
  add_metadata(proto, model.file());
  check_size(proto.ByteSizeLong());
  check_by_onnx(proto);
  return proto;
}

}  // namespace privgrad::tool
