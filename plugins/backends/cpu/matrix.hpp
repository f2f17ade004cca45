#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace privgrad::cpu {

/// A matrix [inner, outer] to multiply rows by, stored in panels of kPanel columns so that the
/// product reads it once, forwards.
///
/// Why not sgemm: its kernel, and with it the order of the additions, depends on the number of rows
/// and on a row's place among them. Measured with OpenBLAS 0.3.21, the same row multiplied alone
/// and within a batch differed on every kernel family but one, and on Haswell and Zen also from
/// place to place in blocks of 16 rows and more. A gradient that depends on its neighbours breaks
/// the sensitivity argument. Here every element is the same chain of single-precision operations,
/// ((0 + a[0] m[0]) + a[1] m[1]) + ..., whatever surrounds it, and on every processor.
class PanelMatrix {
 public:
  static constexpr std::size_t kPanel = 16;

  PanelMatrix() = default;
  PanelMatrix(std::size_t inner, std::size_t outer);

  /// \param matrix  row-major [inner, outer].
  void assign(std::span<const float> matrix);

  /// \param matrix  row-major [outer, inner]: the transpose of what is stored.
  void assign_transposed(std::span<const float> matrix);

  bool empty() const noexcept { return panels_.empty(); }

  /// rows * matrix.
  /// \param rows  [count, inner].
  /// \param products  out: [count, outer].
  void multiply(std::size_t count, std::span<const float> rows, std::span<float> products) const;

 private:
  std::size_t inner_ = 0;
  std::size_t outer_ = 0;
  std::vector<float> panels_;  // [ceil(outer / kPanel), inner, kPanel], filled up with zeros
};

}  // namespace privgrad::cpu
