// The tensors of a model in files that have other names and another order.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace privgrad {

/// Where a file of weights holds a tensor of a model, and in which order.
struct TensorSource {
  std::string block = "";  ///< The name of the model's tensor (ParameterBlock::name).
  std::string name = "";   ///< The name of the file's.
  /// Whether the file has [inputs, units] for [units, inputs].
  bool transposed = false;
  /// Whether the file's images have [channels, height, width]: its convolutions are [channels,
  /// inputs, kernel, kernel], and a dense layer behind an image reads the values in that order.
  bool channels_first = false;
  /// The row at which this tensor begins in a longer one: the first extent of the file's tensor, or
  /// the last if it is transposed. Empty: the file's tensor has this tensor's rows, and no others.
  std::optional<std::size_t> first_row = std::nullopt;
  /// A table of the file whose first row is added to each row; empty: none.
  std::string plus_first_row_of = "";

  bool operator==(const TensorSource&) const = default;
};

}  // namespace privgrad
