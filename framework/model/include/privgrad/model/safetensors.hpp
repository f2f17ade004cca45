// Writes the safetensors format, and reads it from files of unknown origin.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/data/fitted_transform.hpp"
#include "privgrad/network.hpp"

namespace privgrad::core {

/// Returns the parameters in the safetensors format: 8 bytes of header length, a JSON header, the
/// data. The parameters are float32 under the names of their blocks. The transforms' learnt values,
/// float64, come before them as "preprocessing.N.NAME", so that all numbers are aligned.
/// \param metadata  becomes the header's "__metadata__".
/// \throws IoError if two tensors have the same name.
std::string to_safetensors(const Network& network, std::span<const float> parameters,
                           std::span<const FittedTransform> preprocessing,
                           const std::map<std::string, std::string>& metadata);

/// The prefix of the names of fitted tensors.
inline constexpr std::string_view kFittedPrefix = "preprocessing.";

/// Returns "preprocessing.N.NAME".
std::string fitted_name(std::size_t transform, std::string_view name);

struct TensorEntry {
  std::string type;                ///< Type of the tensor's numbers, as in the file: "F32".
  Shape shape;                     ///< Empty: a scalar. An extent may be 0.
  std::size_t begin = 0, end = 0;  ///< Its bytes' range in the data after the header.
};

/// The checked header of a file: the tensors have the lengths of their shapes, and cover the data
/// without gaps or overlaps; no key occurs twice.
struct TensorHeader {
  std::map<std::string, std::string> metadata;
  std::map<std::string, TensorEntry> tensors;
  std::size_t data_begin = 0;  ///< Number of bytes before the data.
};

/// The largest size of a header, including the 8 bytes of its length.
inline constexpr std::size_t kMostTensorHeader = std::size_t{64} << 20;

/// Reads an untrusted header.
/// \param beginning  the first kMostTensorHeader bytes of the file, or all of it if it is shorter.
/// \param file_bytes  the size of the file.
/// \throws IoError for an invalid header; the message does not name the file.
TensorHeader parse_tensor_header(std::string_view beginning, std::size_t file_bytes);

struct StoredTensor {
  std::string name;                ///< UTF-8; not trusted.
  Shape shape;                     ///< Empty: a scalar.
  std::vector<float> values = {};  ///< Row-major, all finite; empty: see problem.
  std::string problem = {};        ///< Why its numbers cannot be used: "has ..."; usually empty.
};

struct StoredTensors {
  std::vector<StoredTensor> tensors;            ///< In the order of their data.
  std::map<std::string, std::string> metadata;  ///< "__metadata__"; not trusted.
};

/// Reads the parameters of a safetensors file from untrusted bytes. Numbers are F32, or F16 or
/// BF16, which float32 represents exactly. Tensors of other types, which would require rounding,
/// and tensors with a number that is not finite, have a `problem` instead of numbers. They are not
/// refused, because files may contain unused tensors, such as the counters of PyTorch's BatchNorm.
/// Fitted values of transforms ("preprocessing.N.NAME", F64) are not parameters and are left out.
/// Whatever the header is, memory is bounded by a small multiple of the file's size.
/// \throws IoError as parse_tensor_header().
StoredTensors read_safetensors(std::string_view bytes);

/// The tensors and the hash of a file, from a single read.
struct TensorFile : StoredTensors {
  std::string sha256;  ///< 64 lower-case hex digits, of the whole file.
};

/// \throws IoError as read_safetensors(), with the file's name in front.
TensorFile read_safetensors_file(const std::filesystem::path& file);

}  // namespace privgrad::core
