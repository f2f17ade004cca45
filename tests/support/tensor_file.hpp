// Writes safetensors files for tests, from the format's specification.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "privgrad/dataset.hpp"

/// A tensor to write.
struct Tensor {
  std::string name;
  privgrad::Shape shape;
  std::vector<float> values;
  std::string type = "F32";  ///< Other four-byte types reuse the bits.
};

/// Returns a file made from the format's specification, independently of the program's own writer.
inline std::string safetensors_of(const std::vector<Tensor>& tensors,
                                  const std::map<std::string, std::string>& metadata = {}) {
  nlohmann::json header;
  std::string data;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const Tensor& tensor : tensors) {
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()),
                tensor.values.size() * sizeof(float));
    header[tensor.name] = {
        {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text + data;
}
