#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "privgrad/privacy.hpp"
#include "privgrad/trust/grid.hpp"

namespace privgrad {

/// The only maker of Bounded, BoundedOnGrid and Released. Included by the sums (clipped_sum.cpp,
/// grid_sum.cpp, exact_sum.cpp, anchored_sums.cpp, plain_sums.cpp) and the mechanisms (mechanism.cpp,
/// correlated_mechanism.cpp) alone, and by the library that makes released values for the conformance
/// suite. It is not installed, and other targets do not have this folder on their path.
class TrustBase {
 public:
  /// \param values  a sum in which each unit's contribution has an L2 norm of at most `l2_bound`.
  static Bounded bounded(std::vector<float> values, double l2_bound, PrivacyUnit unit) {
    return Bounded(std::move(values), l2_bound, unit);
  }

  /// Takes the values out, so that what is released can have their memory.
  static std::vector<float> take(Bounded&& sum) { return std::move(sum.values_); }

  /// \param cells  a sum of `rows` contributions, none of them longer than `levels`.
  static core::BoundedOnGrid bounded_on_grid(std::vector<std::int64_t> cells, std::uint64_t levels,
                                             double l2_bound, std::size_t rows, PrivacyUnit unit) {
    return bounded_on_grid(std::move(cells), levels, l2_bound,
                           l2_bound / static_cast<double>(levels), rows, unit);
  }

  /// \param levels  0 where nothing can be contributed.
  /// \param cell_width  l2_bound / levels, where that is not 0.
  static core::BoundedOnGrid bounded_on_grid(std::vector<std::int64_t> cells, std::uint64_t levels,
                                             double l2_bound, double cell_width, std::size_t rows,
                                             PrivacyUnit unit) {
    return core::BoundedOnGrid(std::move(cells), levels, l2_bound, cell_width, rows, unit);
  }

  static std::vector<std::int64_t> take(core::BoundedOnGrid&& sum) { return std::move(sum.cells_); }

  static const std::vector<std::int64_t>& cells(const core::BoundedOnGrid& sum) {
    return sum.cells_;
  }

  /// \param values  paid for and noised (or declared to be without privacy).
  static Released released(std::vector<float> values, double noise_stddev) {
    return Released(std::move(values), noise_stddev);
  }

  /// \param is_finite  whether all values are.
  static Released released(std::vector<float> values, double noise_stddev, bool is_finite) {
    return Released(std::move(values), noise_stddev, is_finite);
  }
};

}  // namespace privgrad
