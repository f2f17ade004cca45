// Releases a sum with rounded Gaussian noise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "deferred_cells.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// A further term of rounded noise: sigma times the normals of the stream with this key.
struct RoundedTerm {
  RandomKey own_key;   ///< RoundedGaussianStream::own_key().
  double sigma = 0.0;  ///< Standard deviation in cells of the sum; may be negative or 0.
};

/// One rounded Gaussian for each element of a sum in whole cells (rounded_gaussian.hpp).
struct RoundedNoise {
  const RandomKey& key;
  std::uint64_t node = 0;
  double sigma = 0.0;  ///< Standard deviation in cells of the sum.
  unsigned shift = 0;
  double width = 0.0;     ///< Released width of a coarse cell, 2^shift cells of the sum.
  std::size_t first = 0;  ///< The stream element for the sum's first element.
  std::vector<RoundedTerm> further{};  ///< At most 15, for the same elements of their streams.
};

/// The released values, and their memory.
struct RoundedRelease {
  std::shared_ptr<const float[]> values;
  std::size_t size = 0;
  bool is_finite = false;  ///< Whether all values are finite.
};

/// values[i] = float(width * round((sum[i] + Z[i]) / 2^shift)), where Z is the sum of the noise's
/// terms: the same bits for any pieces and any number of threads.
///
/// No unnoised sum remains in memory next to the released values: the memory of cells that are
/// already added up is reused for the values, and the rest of it is overwritten; deferred cells are
/// added up in pieces that stay in the cache.
/// \param cells  the cells of the sum, [size]; if empty, they are zeros.
/// \param deferred  added to the cells; null: nothing.
/// \throws PrivacyError as DeferredCells::add() does; any error of
///   RoundedGaussianStream::release().
RoundedRelease release_rounded(std::vector<std::int64_t> cells,
                               std::unique_ptr<DeferredCells> deferred, const RoundedNoise& noise,
                               Executor& executor);

}  // namespace privgrad::core
