// A builder for ONNX graphs: adds operations and constants and takes care of their names.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "privgrad/dataset.hpp"

namespace privgrad::tool {

/// Adds nodes and constants to a graph of ONNX operations, each under a name of its own. A node may
/// use anything added before it, which is the order that the format requires.
class OnnxGraph {
 public:
  using Attribute =
      std::pair<std::string, std::variant<std::int64_t, float, std::vector<std::int64_t>>>;

  explicit OnnxGraph(onnx::GraphProto& graph) : graph_(graph) {}

  /// An operation with one output.
  /// \param operation  in ONNX's default domain: "Gemm".
  /// \param inputs  names of values. \param name  of the output; "": any free one.
  /// \returns the name of its output.
  std::string add(const std::string& operation, const std::vector<std::string>& inputs,
                  const std::vector<Attribute>& attributes = {}, const std::string& name = "");

  /// A cast to a type of onnx::TensorProto.
  std::string cast(const std::string& value, onnx::TensorProto::DataType type);
  /// \param shape  of one example; the dimension of rows stays.
  std::string reshape(const std::string& value, const Shape& shape);

  /// Adds constants of a shape, row-major; an empty shape makes a scalar.
  /// \param name  as above.
  /// \returns their name.
  std::string constant(std::span<const float> values, const Shape& shape,
                       const std::string& name = "");
  std::string constant(std::span<const double> values, const Shape& shape);
  std::string constant(std::span<const std::int64_t> values, const Shape& shape);
  std::string constant(const std::vector<bool>& values, const Shape& shape);
  std::string scalar(float value) { return constant(std::span(&value, 1), {}); }

  /// \param shape  of one example.
  void add_input(const std::string& name, const Shape& shape) {
    add_value(*graph_.add_input(), name, shape);
  }
  void add_output(const std::string& name, const Shape& shape) {
    add_value(*graph_.add_output(), name, shape);
  }

 private:
  std::string free_name(const std::string& name, const char* kind);
  std::string add_tensor(std::string name, onnx::TensorProto::DataType type, const Shape& shape,
                         const void* bytes, std::size_t count);
  /// float32, [n, shape...].
  static void add_value(onnx::ValueInfoProto& value, const std::string& name, const Shape& shape);

  onnx::GraphProto& graph_;
  std::size_t used_ = 0;
};

}  // namespace privgrad::tool
