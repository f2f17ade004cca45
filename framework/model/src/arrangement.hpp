// Matches a model's tensors with the tensors of a weights file, and rearranges their elements in
// both directions.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/model/safetensors.hpp"
#include "privgrad/network.hpp"
#include "privgrad/tensor_source.hpp"

namespace privgrad::core {

/// The places of the elements of a model's tensor in a tensor of the file: element (i, j, ..) is at
/// place `first` + i strides[0] + j strides[1] + .. No two elements have the same place.
struct Arrangement {
  Shape extents;  ///< The model's extents, row-major; a flattened image counts as three.
  std::vector<std::size_t> strides;
  std::size_t first = 0;

  /// Calls use(i, place) for each element i of the model's tensor, in order.
  template <class Use>
  void each(const Use& use) const {
    Shape at(extents.size(), 0);
    const std::size_t inner = extents.back(), count = element_count(extents);
    std::size_t row = first;  // the place of the first element of a row of the last extent
    for (std::size_t i = 0; i < count;) {
      for (std::size_t j = 0; j < inner; ++j, ++i) use(i, row + j * strides.back());
      for (std::size_t axis = extents.size() - 1; axis-- > 0;) {
        row += strides[axis];
        if (++at[axis] < extents[axis]) break;
        row -= strides[axis] * extents[axis];
        at[axis] = 0;
      }
    }
  }
};

/// \param source  the block's source; if absent, the tensor has the block's shape and order.
/// \param stored  the shape of the file's tensor.
/// \returns the arrangement; nothing if a tensor of this shape cannot be the source of the block.
std::optional<Arrangement> arrangement_of(const Network& network, const ParameterBlock& block,
                                          const std::optional<TensorSource>& source,
                                          const Shape& stored);

/// One of the model's tensors, and its counterpart in the file.
struct Match {
  const ParameterBlock* block = nullptr;
  std::string name;                             ///< Its name in the file.
  const StoredTensor* found = nullptr;          ///< Null if the model initializes the tensor.
  std::optional<TensorSource> source = {};      ///< Nothing: the tensor has the model's order.
  const StoredTensor* added = nullptr;          ///< The table whose first row is added, or null.
  std::optional<Arrangement> arrangement = {};  ///< Nothing if the found tensor does not fit.
  bool is_anew = false;  ///< Whether `map` requests that the model itself initializes the tensor.

  bool fits() const { return found == nullptr || (arrangement && can_be_added()); }

  bool can_be_added() const {
    if (!source || source->plus_first_row_of.empty()) return true;
    return added != nullptr && added->shape.size() == 2 && added->shape[0] > 0 &&
           added->shape[1] == block->shape.back();
  }
};

using StoredByName = std::map<std::string, const StoredTensor*>;
StoredByName by_name(const StoredTensors& file);

/// Returns the sources that apply to a file: none if PrivGrad wrote the file, because its tensors
/// already have the model's names, shapes and order.
std::vector<TensorSource> sources_in(const StoredTensors& file,
                                     const std::vector<TensorSource>& sources);

/// \param names  model.weights.map; its entries take precedence over the model's own sources.
/// \param blocks  the blocks of the network.
/// \param sources  the sources that apply to the file (sources_in()).
/// \param there  the file's tensors; must outlive the result, as must `blocks`.
std::vector<Match> matches_of(const TensorNames& names, const Network& network,
                              const std::vector<ParameterBlock>& blocks,
                              const std::vector<TensorSource>& sources, const StoredByName& there);

/// Returns the values of a tensor that fits and can be read, in the model's order.
std::vector<float> arranged(const Match& match);

/// The inverse of arranged(): writes new values of the tensor.
/// \param in_file  out: the bytes of the file's tensor, F32; other tensors' bytes do not change.
void arrange_back(const Match& match, std::span<const float> values, char* in_file);

}  // namespace privgrad::core
