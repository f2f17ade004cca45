// Reading and writing the safetensors format, also from files that anybody may have made.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "privgrad/data/fitted_transform.hpp"
#include "privgrad/network.hpp"

namespace privgrad::core {

/// The parameters in the safetensors format: 8 bytes of header length, a JSON header, the data. The
/// parameters are float32 under the names of their blocks; before them, so that all are aligned,
/// stand the values that the transforms have learnt, float64, as "preprocessing.N.NAME".
/// \param metadata  goes into the header's "__metadata__".
std::string to_safetensors(const Network& network, std::span<const float> parameters,
                           std::span<const FittedTransform> preprocessing,
                           const std::map<std::string, std::string>& metadata);

/// The prefix of the names of fitted tensors.
inline constexpr std::string_view kFittedPrefix = "preprocessing.";

/// "preprocessing.N.NAME".
std::string fitted_name(std::size_t transform, std::string_view name);

/// One tensor of a file.
struct TensorEntry {
  std::string type;                ///< Of its numbers, as the format names it: "F32".
  Shape shape;                     ///< Empty: one number. An extent may be 0.
  std::size_t begin = 0, end = 0;  ///< Bytes of the data that follows the header.
};

/// The header of a file, checked: the tensors are as long as their shapes say, and cover the data
/// without a gap or an overlap; no key is there twice.
struct TensorHeader {
  std::map<std::string, std::string> metadata;
  std::map<std::string, TensorEntry> tensors;
  std::size_t data_begin = 0;  ///< Bytes before the data.
};

/// The most bytes that a header has, with the 8 of its length.
inline constexpr std::size_t kMostTensorHeader = std::size_t{64} << 20;

/// Reads a header that anybody may have made.
/// \param beginning  of the file: all of it, or kMostTensorHeader bytes.
/// \param file_bytes  how long the file is.
/// \throws IoError with the error, without the file's name.
TensorHeader parse_tensor_header(std::string_view beginning, std::size_t file_bytes);

/// A tensor of a file.
struct StoredTensor {
  std::string name;                ///< UTF-8; anybody may have written it.
  Shape shape;                     ///< Empty: one number.
  std::vector<float> values = {};  ///< Row-major, all finite; empty: see problem.
  std::string problem = {};        ///< Why its numbers cannot be used: "has ..."; mostly empty.
};

/// The content of a safetensors file.
struct StoredTensors {
  std::vector<StoredTensor> tensors;            ///< In the order of their data.
  std::map<std::string, std::string> metadata;  ///< "__metadata__"; anybody may have written it.
};

/// Reads the parameters of a safetensors file from bytes that anybody may have written. Numbers are
/// F32, or F16 or BF16, each of which is a float32 exactly; tensors with others, which would have
/// to be rounded, or with one that is not finite have a problem instead of numbers: files hold
/// tensors that nobody uses, such as the counters of PyTorch's BatchNorm. Fitted values of transforms ("preprocessing.N.NAME", F64) are no parameters and
/// left out. Memory is bounded by a small multiple of the bytes, whatever the header says.
/// \throws IoError as parse_tensor_header().
StoredTensors read_safetensors(std::string_view bytes);

/// The tensors of a file, and its hash, from one reading of it.
struct TensorFile : StoredTensors {
  std::string sha256;  ///< 64 lower-case hex digits, of the whole file.
};

/// \throws IoError as above, with the file's name in front.
TensorFile read_safetensors_file(const std::filesystem::path& file);

}  // namespace privgrad::core
