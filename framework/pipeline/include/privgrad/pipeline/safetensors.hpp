#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "privgrad/network.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::core {

/// What a transform of a run has learnt, as it was applied.
struct FittedTransform {
  bool is_known = false;             ///< False: the transform keeps it to itself.
  std::vector<FittedTensor> values;  ///< Of one that uses none: none.
};

/// The parameters in the safetensors format: 8 bytes of header length, a JSON header, the data. The
/// parameters are float32 under the names of their blocks; before them, so that all are aligned,
/// stands what the transforms have learnt, float64, as "preprocessing.N.NAME".
/// \param metadata  goes into the header's "__metadata__".
std::string to_safetensors(const Network& network, std::span<const float> parameters,
                           std::span<const FittedTransform> preprocessing,
                           const std::map<std::string, std::string>& metadata);

/// "preprocessing.N.NAME".
std::string fitted_name(std::size_t transform, std::string_view name);

/// One tensor of a file.
struct TensorEntry {
  bool is_double = false;          ///< F64, not F32.
  Shape shape;                     ///< Every extent > 0.
  std::size_t begin = 0, end = 0;  ///< Bytes of the data that follows the header.
};

/// The header of a file, checked: the tensors are F32 or F64, as long as their shapes say, and cover
/// the data without a gap or an overlap.
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
/// \throws IoError  what is wrong, without the file's name.
TensorHeader parse_tensor_header(std::string_view beginning, std::size_t file_bytes);

}  // namespace privgrad::core
