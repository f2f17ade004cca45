#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/model/safetensors.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/sha256.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kMostTensorFile = std::size_t{1} << 36;

using NamedEntry = std::pair<std::string, TensorEntry>;

/// In the order of their data.
std::vector<NamedEntry> parameters_of(const TensorHeader& header) {
  std::vector<NamedEntry> entries;
  for (const auto& [name, entry] : header.tensors) {
    if (name.starts_with(kFittedPrefix)) continue;
    if (entry.type == TensorType::f64) {
      throw IoError("its tensor '" + one_line(name, 80) +
                    "' has numbers of the type 'F64', allowed are F32, F16 and BF16");
    }
    entries.emplace_back(name, entry);
  }
  std::sort(entries.begin(), entries.end(), [](const NamedEntry& a, const NamedEntry& b) {
    return std::pair(a.second.begin, a.second.end) < std::pair(b.second.begin, b.second.end);
  });
  return entries;
}

/// IEEE 754 binary16: 1 bit of sign, 5 of exponent (15 stands for 2^0), 10 of fraction.
float from_half(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const auto fraction = static_cast<float>(half & 1023);
  float value = 0.0f;
  if (exponent == 31) {
    value = std::numeric_limits<float>::infinity();  // or no number: neither is finite
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(fraction + 1024.0f, exponent - 25);
  }
  return (half >> 15) != 0 ? -value : value;
}

std::vector<float> numbers_of(const NamedEntry& named, std::string_view data) {
  const auto& [name, entry] = named;
  std::vector<float> values((entry.end - entry.begin) / bytes_of(entry.type));
  const char* from = data.data() + entry.begin;
  if (entry.type == TensorType::f32) {
    if (!values.empty()) std::memcpy(values.data(), from, values.size() * sizeof(float));
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, from + 2 * i, sizeof bits);
      values[i] = entry.type == TensorType::f16
                      ? from_half(bits)
                      : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }
  }
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  if (bad == values.end()) return values;
  throw IoError("its tensor '" + one_line(name, 80) +
                "' holds a number that is not finite, at place " +
                std::to_string(bad - values.begin()));
}

}  // namespace

StoredTensors read_safetensors(std::string_view bytes) {
  TensorHeader header = parse_tensor_header(bytes, bytes.size());
  const std::string_view data = bytes.substr(header.data_begin);
  StoredTensors read;
  for (NamedEntry& entry : parameters_of(header)) {
    std::vector<float> values = numbers_of(entry, data);
    read.tensors.push_back(
        {std::move(entry.first), std::move(entry.second.shape), std::move(values)});
  }
  read.metadata = std::move(header.metadata);
  return read;
}

TensorFile read_safetensors_file(const std::filesystem::path& file) {
  const std::string bytes = read_whole(file, kMostTensorFile);
  try {
    return {read_safetensors(bytes), sha256_hex(bytes)};
  } catch (const IoError& problem) {
    throw IoError(file.string() + ": " + problem.what());
  }
}

}  // namespace privgrad::core
