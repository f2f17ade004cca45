#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/network.hpp"

namespace privgrad::core {

/// The parameters in the safetensors format: 8 bytes of header length, a JSON header, float32 data.
/// \param metadata  goes into the header's "__metadata__".
std::string to_safetensors(const Network& network, std::span<const float> parameters,
                           const std::map<std::string, std::string>& metadata);

/// A tensor of a file.
struct StoredTensor {
  std::string name;           ///< UTF-8; anybody may have written it.
  Shape shape;                ///< Empty: one number.
  std::vector<float> values;  ///< Row-major, all finite.
};

/// What a safetensors file holds.
struct StoredTensors {
  std::vector<StoredTensor> tensors;            ///< In the order of their data.
  std::map<std::string, std::string> metadata;  ///< Of "__metadata__"; anybody may have written it.
};

/// Reads the safetensors format from bytes that anybody may have written. Numbers are F32, or F16
/// or BF16, each of which is a float32 exactly; others would have to be rounded, and are refused.
/// Memory is bounded by a small multiple of the bytes, whatever the header says.
/// \throws IoError saying what is wrong: cut off, a header that is no such JSON (its length, depth,
///   a key given twice), data that overlaps, has gaps or does not fit its shape, a number that is
///   not finite.
StoredTensors read_safetensors(std::string_view bytes);

/// The same of a file, and its hash, from one reading of it.
struct TensorFile : StoredTensors {
  std::string sha256;  ///< 64 lower-case hex digits, of the whole file.
};

/// \throws IoError as above, with the file's name in front.
TensorFile read_safetensors_file(const std::filesystem::path& file);

}  // namespace privgrad::core
