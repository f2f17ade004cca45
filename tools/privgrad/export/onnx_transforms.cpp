#include "onnx_transforms.hpp"

#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/row_operation.hpp"

namespace privgrad::tool {
namespace {

using namespace row_operation;

/// Adds operations on the value x, float64, [n, features].
class RowGraph {
 public:
  RowGraph(OnnxGraph& graph, std::string x, std::size_t features)
      : graph_(graph), x_(std::move(x)), features_(features) {}

  const std::string& value() const { return x_; }

  void operator()(const Subtract& one) { with_numbers("Sub", one.values); }
  void operator()(const Multiply& one) { with_numbers("Mul", one.values); }
  void operator()(const Divide& one) { with_numbers("Div", one.values); }
  void operator()(const Keep& one) {
    x_ = graph_.add("Where", {graph_.constant(one.kept, {one.kept.size()}), x_, number(0.0)});
  }
  void operator()(const DivideByNorm& one) {
    const std::string squares = graph_.add("Mul", {x_, x_});
    const std::int64_t last = 1;
    const std::string sum =
        graph_.add("ReduceSum", {squares, graph_.constant(std::span(&last, 1), {1})});
    const std::string norm = graph_.add("Sqrt", {sum});
    x_ = graph_.add("Div", {x_, graph_.add("Max", {norm, number(one.at_least)})});
  }
  void operator()(const Project& one) {
    x_ = graph_.add("MatMul", {x_, columns(one.matrix, one.outputs, features_)});
    features_ = one.outputs;
  }
  void operator()(const ProjectAxis& one) {
    const std::size_t before = features_ / (one.length * one.after);
    if (one.after == 1) {
      // One matrix product for all blocks is faster than one matrix-vector product for each.
      x_ = graph_.reshape(x_, {before, one.length});
      x_ = graph_.add("MatMul", {x_, columns(one.matrix, one.outputs, one.length)});
    } else {
      x_ = graph_.reshape(x_, {before, one.length, one.after});
      x_ = graph_.add("MatMul", {graph_.constant(one.matrix, {one.outputs, one.length}), x_});
    }
    features_ = before * one.outputs * one.after;
    x_ = graph_.reshape(x_, {features_});
  }
  void operator()(const Take& one) {
    const std::vector<std::int64_t> places(one.from.begin(), one.from.end());
    x_ = graph_.add("Gather", {x_, graph_.constant(places, {places.size()})},
                    {{"axis", std::int64_t{1}}});
    features_ = places.size();
  }
  void operator()(const Modulus&) {
    const std::size_t half = features_ / 2;
    const std::string pairs = graph_.reshape(graph_.add("Mul", {x_, x_}), {2, half});
    const std::int64_t parts = 1;
    const std::string sum =
        graph_.add("ReduceSum", {pairs, graph_.constant(std::span(&parts, 1), {1})},
                   {{"keepdims", std::int64_t{0}}});
    x_ = graph_.add("Sqrt", {sum});
    features_ = half;
  }
  void operator()(const Concatenate& one) {
    std::vector<std::string> parts;
    std::size_t features = 0;
    for (const Branch& branch : one.branches) {
      RowGraph part(graph_, x_, features_);
      for (const RowOperation& operation : branch.operations) std::visit(part, operation);
      parts.push_back(part.x_);
      features += part.features_;
    }
    x_ = graph_.add("Concat", parts, {{"axis", std::int64_t{1}}});
    features_ = features;
  }

 private:
  /// Returns a matrix [outputs, inputs], reordered to [inputs, outputs].
  std::string columns(const std::vector<double>& matrix, std::size_t outputs, std::size_t inputs) {
    std::vector<double> turned(matrix.size());
    for (std::size_t i = 0; i < outputs; ++i) {
      for (std::size_t j = 0; j < inputs; ++j) turned[j * outputs + i] = matrix[i * inputs + j];
    }
    return graph_.constant(turned, {inputs, outputs});
  }
  std::string number(double value) { return graph_.constant(std::span(&value, 1), {1}); }
  void with_numbers(const char* operation, const std::vector<double>& values) {
    x_ = graph_.add(operation, {x_, graph_.constant(values, {values.size()})});
  }

  OnnxGraph& graph_;
  std::string x_;
  std::size_t features_;
};

std::vector<RowOperation> operations_of(const core::TrainedModel::Stage& stage,
                                        const std::string& name) {
  try {
    return stage.transform->row_operations(stage.before.features);
  } catch (const ConfigError& problem) {
    throw ConfigError("the transform " + name + " cannot be exported: " + problem.what());
  }
}

}  // namespace

std::string add_transforms(OnnxGraph& graph, const core::TrainedModel& model,
                           std::string features) {
  const std::size_t raw = element_count(model.file().input.features);
  if (!model.stages().empty()) features = graph.reshape(features, {raw});
  for (std::size_t i = 0; i < model.stages().size(); ++i) {
    const core::TrainedModel::Stage& stage = model.stages()[i];
    const std::string& name = model.file().preprocessing[i].component.name;
    const std::vector<RowOperation> operations = operations_of(stage, name);
    const std::size_t before = element_count(stage.before.features);
    if (check_row_operations(operations, before) != element_count(stage.after.features))
      throw PluginError(name + ": its operations make examples of another size than it declares");
    if (operations.empty()) continue;
    // Computes in double, like the transforms themselves: differences of large numbers are exact,
    // and each transform rounds once at its end.
    RowGraph row(graph, graph.cast(features, onnx::TensorProto::DOUBLE), before);
    for (const RowOperation& operation : operations) std::visit(row, operation);
    features = graph.cast(row.value(), onnx::TensorProto::FLOAT);
  }
  if (!model.stages().empty())
    features = graph.reshape(features, model.file().network.input.features);
  return features;
}

}  // namespace privgrad::tool
