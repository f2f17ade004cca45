// Matrix products that give each example the same bits for any neighbours and any processor.
#pragma once

#include <cstddef>
#include <vector>

// Matrix products whose every element is one chain of fused multiply-adds,
//   fma(a[n-1], b[n-1], ... fma(a[1], b[1], fma(a[0], b[0], start))),
// each rounded once to float32: the same bits at any place among any other rows and columns, for
// any division of the work, on AVX-512, AVX2 and processors with neither.
//
// Why not sgemm: its kernel, and with it the order of additions, depends on the number of rows and
// on a row's place among them. In measurements with OpenBLAS 0.3.21, a row's product alone and
// within a batch differed on every kernel family except one, and on Haswell and Zen also between
// places in blocks of 16 rows and more. A contribution must not depend on its neighbours.
namespace privgrad::cpu {

/// A matrix whose element [i, k] is data[i * row + k * inner].
struct Strided {
  const float* data = nullptr;
  std::size_t row = 0, inner = 1;
};

/// The initial values of a product's chains; all are 0 if no member is set.
struct Start {
  const float* of_rows = nullptr;     ///< [rows]: one for each row.
  const float* of_columns = nullptr;  ///< [columns]: one for each column.
  bool at_product = false;            ///< Whether the chains continue from the product's memory.
};

/// product[i, j] = the chain over k of a[i, k] b[k, j], from its initial value.
/// \param b  [inner, columns], rows begin b_stride floats apart.
/// \param product  [rows, columns], rows begin `stride` floats apart.
void multiply_chains(std::size_t rows, std::size_t columns, std::size_t inner, Strided a,
                     const float* b, std::size_t b_stride, Start start, float* product,
                     std::size_t stride);

/// A matrix [inner, columns] as the right factor of many products: panels of as many columns as a
/// tile has, each [inner, width] and contiguous, so that a panel is read from first to last.
class Panels {
 public:
  Panels() = default;
  /// \param columns, inner  neither 0.
  Panels(std::size_t columns, std::size_t inner);

  std::size_t columns() const noexcept { return columns_; }
  std::size_t inner() const noexcept { return inner_; }
  std::size_t width() const noexcept { return width_; }
  std::size_t size() const noexcept { return columns_ * inner_; }  ///< The number of floats.
  const float* panel(std::size_t column) const noexcept { return data_.data() + column * inner_; }

  /// Copies b, a contiguous matrix [inner, columns].
  void take_rows(const float* b);
  /// Copies the transpose of b, where b is a contiguous matrix [columns, inner].
  void take_columns(const float* b);

 private:
  std::size_t columns_ = 0, inner_ = 0, width_ = 1;
  std::vector<float> data_;  // the last panel has the full width, partly unread
};

/// Computes the product of multiply_chains(), with the same bits, for a b in panels.
void multiply_chains(std::size_t rows, Strided a, const Panels& b, Start start, float* product,
                     std::size_t stride);

/// to[j, i] = from[i, j].
/// \param from  [rows, columns]; its rows begin from_stride floats apart, those of `to` to_stride.
void transpose(std::size_t rows, std::size_t columns, const float* from, std::size_t from_stride,
               float* to, std::size_t to_stride);

/// The number of examples that form the columns of a dense layer's product.
constexpr std::size_t kPanel = 32;

/// Writes the examples [rows, inner] as a panel [inner, kPanel], padded with zeros.
/// \param rows  at most kPanel.
void pack_panel(std::size_t rows, std::size_t inner, const float* examples, float* panel);

/// out[i, u] = biases[u] + sum over k of weights[u, k] examples[i, k], as a chain.
/// \param panel  [inner, kPanel], from pack_panel().
/// \param weights  [units, inner].
/// \param out  [rows, units], rows begin `stride` floats apart.
void multiply_panel(std::size_t rows, std::size_t units, std::size_t inner, const float* panel,
                    const float* weights, const float* biases, float* out, std::size_t stride);

}  // namespace privgrad::cpu
