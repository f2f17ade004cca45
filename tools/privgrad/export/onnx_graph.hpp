// A builder for ONNX graphs: adds operations and constants and chooses their names.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "privgrad/dataset.hpp"

namespace privgrad::tool {

/// Adds nodes and constants to a graph of ONNX operations, each under a unique name. A node can
/// only use inputs, nodes and constants that were added before, as the format requires.
class OnnxGraph {
 public:
  using Attribute =
      std::pair<std::string, std::variant<std::int64_t, float, std::vector<std::int64_t>,
                                          std::vector<std::string>>>;

  explicit OnnxGraph(onnx::GraphProto& graph) : graph_(graph) {}

  /// Adds an operation with one output.
  /// \param operation  "NAME" in ONNX's default domain, such as "Gemm", or "DOMAIN.NAME".
  /// \param inputs  names of values.
  /// \param name  the preferred name of the output; if it is taken, another name is chosen.
  /// \returns the name of the output.
  std::string add(const std::string& operation, const std::vector<std::string>& inputs,
                  const std::vector<Attribute>& attributes = {}, const std::string& name = "");

  /// Adds a cast to a type of onnx::TensorProto. \returns the name of the result.
  std::string cast(const std::string& value, onnx::TensorProto::DataType type);
  /// \param shape  the new shape of one example; the number of rows stays.
  std::string reshape(const std::string& value, const Shape& shape);

  /// Adds constants of a shape, row-major; an empty shape makes a scalar.
  /// \param name  as for add().
  /// \returns their name.
  std::string constant(std::span<const float> values, const Shape& shape,
                       const std::string& name = "");
  std::string constant(std::span<const double> values, const Shape& shape);
  std::string constant(std::span<const std::int64_t> values, const Shape& shape);
  std::string constant(const std::vector<bool>& values, const Shape& shape);
  std::string constant(const std::vector<std::string>& values, const Shape& shape);
  std::string scalar(float value) { return constant(std::span(&value, 1), {}); }

  /// Reserves the name of an input. Nodes and constants take any free name, so an input that is
  /// added after them must be reserved before them.
  void reserve(const std::string& name) { names_.insert(name); }
  /// \param shape  the shape of one example.
  void add_input(const std::string& name, const Shape& shape,
                 onnx::TensorProto::DataType type = onnx::TensorProto::FLOAT) {
    reserve(name);
    add_value(*graph_.add_input(), name, shape, type);
  }
  void add_output(const std::string& name, const Shape& shape,
                  onnx::TensorProto::DataType type = onnx::TensorProto::FLOAT) {
    add_value(*graph_.add_output(), name, shape, type);
  }

 private:
  std::string free_name(const std::string& name, const char* kind);
  std::string add_tensor(std::string name, onnx::TensorProto::DataType type, const Shape& shape,
                         const void* bytes, std::size_t count);
  /// Declares a value of the shape [n, shape...].
  static void add_value(onnx::ValueInfoProto& value, const std::string& name, const Shape& shape,
                        onnx::TensorProto::DataType type);

  onnx::GraphProto& graph_;
  std::set<std::string> names_;
  std::size_t used_ = 0;
};

}  // namespace privgrad::tool
