#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/model/safetensors.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kMostTensorFile = std::size_t{1} << 36;

using NamedEntry = std::pair<std::string, TensorEntry>;

/// Returns the file's parameters, in the order of their data.
std::vector<NamedEntry> parameters_of(const TensorHeader& header) {
  std::vector<NamedEntry> entries;
  for (const auto& [name, entry] : header.tensors) {
    if (!name.starts_with(kFittedPrefix)) entries.emplace_back(name, entry);
  }
  std::ranges::sort(entries, [](const NamedEntry& a, const NamedEntry& b) {
    return std::pair(a.second.begin, a.second.end) < std::pair(b.second.begin, b.second.end);
  });
  return entries;
}

/// Converts IEEE 754 binary16: 1 sign bit, 5 exponent bits (15 means 2^0), 10 fraction bits.
float from_half(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const auto fraction = static_cast<float>(half & 1023);
  float value = 0.0f;
  if (exponent == 31) {
    // Replaces both infinity and NaN by infinity: callers only test whether a value is finite.
    value = std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(fraction + 1024.0f, exponent - 25);
  }
  return (half >> 15) != 0 ? -value : value;
}

void read_numbers(const TensorEntry& entry, std::string_view data, StoredTensor& tensor) {
  const bool is_whole = entry.type == "F32";
  if (!is_whole && entry.type != "F16" && entry.type != "BF16") {
    tensor.problem = "has numbers of the type '" + entry.type + "', allowed are F32, F16 and BF16";
    return;
  }
  std::vector<float> values((entry.end - entry.begin) / (is_whole ? 4 : 2));
  const char* from = data.data() + entry.begin;
  if (is_whole) {
    if (!values.empty()) std::memcpy(values.data(), from, values.size() * sizeof(float));
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, from + 2 * i, sizeof bits);
      values[i] = entry.type == "F16"
                      ? from_half(bits)
                      : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }
  }
  const auto bad = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  if (bad == values.end()) {
    tensor.values = std::move(values);
  } else {
    tensor.problem =
        "contains a number that is not finite, at place " + std::to_string(bad - values.begin());
  }
}

}  // namespace

StoredTensors read_safetensors(std::string_view bytes) {
  TensorHeader header = parse_tensor_header(bytes, bytes.size());
  const std::string_view data = bytes.substr(header.data_begin);
  StoredTensors read;
  for (NamedEntry& entry : parameters_of(header)) {
    StoredTensor& tensor =
        read.tensors.emplace_back(StoredTensor{.name = entry.first, .shape = entry.second.shape});
    read_numbers(entry.second, data, tensor);
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
