// TrustBase, the only maker of Bounded, BoundedOnGrid, Released and NoiseOrder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "deferred_cells.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/resident_steps.hpp"
#include "privgrad/trust/grid.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad {

/// The only maker of Bounded, BoundedOnGrid, Released and NoiseOrder. docs/trust.md lists the files
/// that include it, and a test compares that list with the tree. The header is not installed, and
/// its folder is not on the include path of other targets.
class TrustBase {
 public:
  /// \param values  a sum in which each unit's contribution has an L2 norm of at most `l2_bound`.
  static Bounded bounded(std::vector<float> values, double l2_bound, PrivacyUnit unit) {
    return Bounded(std::move(values), l2_bound, unit);
  }

  /// Moves the values out, so that released values can reuse their memory.
  static std::vector<float> take(Bounded&& sum) { return std::move(sum.values_); }

  /// \param cells  a sum of `rows` contributions, none of them longer than `levels`.
  static core::BoundedOnGrid bounded_on_grid(std::vector<std::int64_t> cells, std::uint64_t levels,
                                             double l2_bound, std::size_t rows, PrivacyUnit unit) {
    return bounded_on_grid(std::move(cells), levels, l2_bound,
                           l2_bound / static_cast<double>(levels), rows, unit);
  }

  /// \param levels  0 if nothing can be contributed.
  /// \param cell_width  l2_bound / levels, if levels is not 0.
  static core::BoundedOnGrid bounded_on_grid(std::vector<std::int64_t> cells, std::uint64_t levels,
                                             double l2_bound, double cell_width, std::size_t rows,
                                             PrivacyUnit unit) {
    const std::size_t size = cells.size();
    return core::BoundedOnGrid(std::move(cells), nullptr, size, levels, l2_bound, cell_width, rows,
                               unit);
  }

  /// A sum in which some contributions are still to be added: it is equivalent to the complete sum.
  /// \param cells  the sum of the other contributions, of the same size; empty: zeros.
  static core::BoundedOnGrid bounded_on_grid(std::vector<std::int64_t> cells,
                                             std::unique_ptr<core::DeferredCells> deferred,
                                             std::uint64_t levels, double l2_bound,
                                             std::size_t rows, PrivacyUnit unit) {
    const double width = l2_bound / static_cast<double>(levels);
    const std::size_t size = deferred->ends().back();
    return core::BoundedOnGrid(std::move(cells), std::move(deferred), size, levels, l2_bound, width,
                               rows, unit);
  }

  /// Moves all cells out, after adding the deferred contributions on the calling thread.
  static std::vector<std::int64_t> take(core::BoundedOnGrid&& sum) {
    auto [cells, deferred] = take_parts(std::move(sum));
    if (deferred != nullptr) add_all(*deferred, cells);
    return std::move(cells);
  }

  /// The two parts of a sum: `cells` (empty means zeros) and the deferred contributions.
  struct Parts {
    std::vector<std::int64_t> cells;
    std::unique_ptr<core::DeferredCells> deferred;  // null if nothing is deferred
  };
  static Parts take_parts(core::BoundedOnGrid&& sum) {
    sum.size_ = 0;
    return {std::move(sum.cells_), std::move(sum.deferred_)};
  }

  /// For tests, which compare sums without releasing them.
  static std::vector<std::int64_t> copy(const core::BoundedOnGrid& sum) {
    std::vector<std::int64_t> cells = sum.cells_;
    if (sum.deferred_ != nullptr) add_all(*sum.deferred_, cells);
    return cells;
  }

  /// \param stream_key  the key of a noise stream that is paid for
  ///   (RoundedGaussianStream::own_key()).
  static NoiseOrder noise_order(const core::RandomKey& stream_key, double sigma, unsigned shift) {
    return {stream_key.secret_bytes().first<16>(), sigma, shift};
  }

  /// \param values  values that were paid for and noised, or declared to be without privacy.
  static Released released(std::vector<float> values, double noise_stddev) {
    return Released(std::move(values), noise_stddev);
  }

  /// \param is_finite  whether all values are finite.
  static Released released(std::vector<float> values, double noise_stddev, bool is_finite) {
    const auto memory = std::make_shared<const std::vector<float>>(std::move(values));
    return released({memory, memory->data()}, memory->size(), noise_stddev, is_finite);
  }

  /// \param values  [size], and their memory.
  static Released released(std::shared_ptr<const float[]> values, std::size_t size,
                           double noise_stddev, bool is_finite) {
    return Released(std::move(values), size, noise_stddev, is_finite);
  }

 private:
  static void add_all(const core::DeferredCells& deferred, std::vector<std::int64_t>& cells) {
    cells.resize(deferred.ends().back(), 0);
    std::size_t begin = 0;
    for (std::size_t piece = 0; piece < deferred.ends().size(); ++piece) {
      const std::size_t end = deferred.ends()[piece];
      deferred.add(piece, std::span(cells).subspan(begin, end - begin));
      begin = end;
    }
  }
};

}  // namespace privgrad
