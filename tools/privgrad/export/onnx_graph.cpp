#include "onnx_graph.hpp"

#include <algorithm>
#include <bit>

namespace privgrad::tool {

std::string OnnxGraph::free_name(const std::string& name, const char* kind) {
  std::string free = name;
  while (free.empty() || !names_.insert(free).second) free = kind + std::to_string(used_++);
  return free;
}

std::string OnnxGraph::add(const std::string& operation, const std::vector<std::string>& inputs,
                           const std::vector<Attribute>& attributes, const std::string& name) {
  onnx::NodeProto& node = *graph_.add_node();
  std::string output = free_name(name, "value_");
  const std::size_t dot = operation.rfind('.');
  if (dot != operation.npos) node.set_domain(operation.substr(0, dot));
  node.set_op_type(dot == operation.npos ? operation : operation.substr(dot + 1));
  node.set_name(node.op_type() + "_" + output);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  for (const auto& [key, value] : attributes) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(key);
    if (const auto* whole = std::get_if<std::int64_t>(&value)) {
      attribute.set_type(onnx::AttributeProto::INT);
      attribute.set_i(*whole);
    } else if (const auto* real = std::get_if<float>(&value)) {
      attribute.set_type(onnx::AttributeProto::FLOAT);
      attribute.set_f(*real);
    } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      attribute.set_type(onnx::AttributeProto::STRINGS);
      for (const std::string& text : *texts) attribute.add_strings(text);
    } else {
      attribute.set_type(onnx::AttributeProto::INTS);
      for (const std::int64_t one : std::get<std::vector<std::int64_t>>(value))
        attribute.add_ints(one);
    }
  }
  return output;
}

std::string OnnxGraph::cast(const std::string& value, onnx::TensorProto::DataType type) {
  return add("Cast", {value}, {{"to", static_cast<std::int64_t>(type)}});
}

std::string OnnxGraph::reshape(const std::string& value, const Shape& shape) {
  std::vector<std::int64_t> extents{0};  // 0: the extent does not change
  for (const std::size_t extent : shape) extents.push_back(static_cast<std::int64_t>(extent));
  return add("Reshape", {value, constant(extents, {extents.size()})});
}

std::string OnnxGraph::constant(std::span<const float> values, const Shape& shape,
                                const std::string& name) {
  return add_tensor(name, onnx::TensorProto::FLOAT, shape, values.data(), values.size_bytes());
}
std::string OnnxGraph::constant(std::span<const double> values, const Shape& shape) {
  return add_tensor("", onnx::TensorProto::DOUBLE, shape, values.data(), values.size_bytes());
}
std::string OnnxGraph::constant(std::span<const std::int64_t> values, const Shape& shape) {
  return add_tensor("", onnx::TensorProto::INT64, shape, values.data(), values.size_bytes());
}
std::string OnnxGraph::constant(const std::vector<bool>& values, const Shape& shape) {
  std::string bytes(values.size(), '\0');
  std::ranges::copy(values, bytes.begin());
  return add_tensor("", onnx::TensorProto::BOOL, shape, bytes.data(), bytes.size());
}

std::string OnnxGraph::constant(const std::vector<std::string>& values, const Shape& shape) {
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(free_name("", "constant_"));
  tensor.set_data_type(onnx::TensorProto::STRING);
  for (const std::size_t extent : shape) tensor.add_dims(static_cast<std::int64_t>(extent));
  for (const std::string& value : values) tensor.add_string_data(value);
  return tensor.name();
}

std::string OnnxGraph::add_tensor(std::string name, onnx::TensorProto::DataType type,
                                  const Shape& shape, const void* bytes, std::size_t count) {
  static_assert(std::endian::native == std::endian::little, "raw data is little-endian");
  onnx::TensorProto& tensor = *graph_.add_initializer();
  name = free_name(name, "constant_");
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const std::size_t extent : shape) tensor.add_dims(static_cast<std::int64_t>(extent));
  tensor.set_raw_data(bytes, count);
  return name;
}

void OnnxGraph::add_value(onnx::ValueInfoProto& value, const std::string& name, const Shape& shape,
                          onnx::TensorProto::DataType type) {
  value.set_name(name);
  onnx::TypeProto::Tensor& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape()->add_dim()->set_dim_param("n");
  for (const std::size_t extent : shape)
    tensor.mutable_shape()->add_dim()->set_dim_value(static_cast<std::int64_t>(extent));
}

}  // namespace privgrad::tool
