// Second moments of examples, for transforms such as pca that release them and use eigenvectors.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>
#include <xtensor-blas/xlinalg.hpp>
#include <xtensor/xadapt.hpp>

#include "privgrad/bounded_statistic.hpp"
#include "privgrad/error.hpp"
#include "privgrad/wide_registers.hpp"

// OpenBLAS's cblas.h and the one inside xtensor-blas cannot be included together.
extern "C" void openblas_set_num_threads(int count);
extern "C" int openblas_get_num_threads(void);

// Each plugin that includes this is compiled with -ffp-contract=off: a contribution has the same
// bits on every processor.
namespace second_moments {

/// Limits BLAS to one thread during its lifetime: with more threads, sums would be split
/// differently, and results would depend on the number of cores.
class OneBlasThread {
 public:
  OneBlasThread() : before_(openblas_get_num_threads()) { openblas_set_num_threads(1); }
  OneBlasThread(const OneBlasThread&) = delete;
  OneBlasThread& operator=(const OneBlasThread&) = delete;
  ~OneBlasThread() { openblas_set_num_threads(before_); }

 private:
  int before_;
};

/// Returns the number of elements on and below the diagonal.
inline std::size_t triangle(std::size_t size) { return size * (size + 1) / 2; }

/// An example's features as [before, length, after]: before * after vectors of `length` numbers.
struct Vectors {
  std::size_t before = 1, length = 1, after = 1;

  std::size_t count() const { return before * after; }
};

/// Returns the factor that brings features within a norm: min(1, most / ||x||), with the sum in the
/// order of the features. Squares of float32 are exact in double.
inline double factor_within(std::span<const float> features, double most) {
  double square = 0.0;
  for (const float x : features) square += static_cast<double>(x) * static_cast<double>(x);
  const double norm = std::sqrt(square);
  return norm <= most ? 1.0 : most / norm;
}

/// The lower triangle of the sum over the vectors x_p of factor^2 x_p x_p^T, row after row, with
/// the off-diagonal numbers multiplied by the root of 2. The Euclidean norm of the triangle is then
/// the Frobenius norm of the whole matrix, which is at most the sum of factor^2 ||x_p||^2 (the
/// triangle inequality, and ||x x^T|| = ||x||^2). With equal noise in each number, the off-diagonal
/// elements have noise smaller by the root of 2, at the same sensitivity as for the unscaled
/// triangle.
///
/// Products are added in a fixed order, in double, so the bits do not depend on other examples or
/// on the division into pieces.
class OuterProducts final : public privgrad::Contribution {
 public:
  OuterProducts(std::span<const float> features, const Vectors& vectors, double factor)
      : length_(vectors.length), values_(features.size()) {
    double* x = values_.data();
    for (std::size_t b = 0; b < vectors.before; ++b) {
      for (std::size_t a = 0; a < vectors.after; ++a, x += length_) {
        for (std::size_t j = 0; j < length_; ++j)
          x[j] = factor * static_cast<double>(features[(b * length_ + j) * vectors.after + a]);
      }
    }
  }

  /// \param out  a part of the contribution, [triangle(length)].
  void piece(std::size_t begin, std::span<float> out) const override {
    privgrad::in_wide_registers([&] {
      std::size_t i = row_of(begin);
      for (std::size_t j = begin - triangle(i); !out.empty(); ++i, j = 0) {
        const std::size_t count = std::min(out.size(), i + 1 - j);
        put_row(i, j, out.first(count));
        out = out.subspan(count);
      }
    });
  }

 private:
  static constexpr double kRoot = 1.4142135623730951;

  /// Returns the row of the triangle's number at `place`.
  static std::size_t row_of(std::size_t place) {
    auto row = static_cast<std::size_t>(std::sqrt(2.0 * static_cast<double>(place)));
    while (triangle(row) > place) --row;
    while (triangle(row + 1) <= place) ++row;
    return row;
  }

  /// Writes the numbers of row i from column j on.
  [[gnu::always_inline]] void put_row(std::size_t i, std::size_t j, std::span<float> out) const {
    constexpr std::size_t kAtOnce = 256;
    const bool has_diagonal = j + out.size() > i;
    if (values_.size() == length_) {  // a single vector needs no sums: faster
      const double* x = values_.data();
      // Adding 0, as a sum does, turns -0 into 0.
      for (std::size_t k = 0; k < out.size(); ++k)
        out[k] = static_cast<float>(kRoot * (0.0 + x[i] * x[j + k]));
      if (has_diagonal) out[i - j] = static_cast<float>(x[i] * x[i]);
      return;
    }
    double sums[kAtOnce];
    for (std::size_t first = 0; first < out.size(); first += kAtOnce) {
      const std::size_t count = std::min(kAtOnce, out.size() - first);
      std::fill_n(sums, count, 0.0);
      for (std::size_t at = 0; at < values_.size(); at += length_) {
        const double left = values_[at + i];
        const double* right = values_.data() + at + j + first;
        for (std::size_t k = 0; k < count; ++k) sums[k] += left * right[k];
      }
      for (std::size_t k = 0; k < count; ++k) out[first + k] = static_cast<float>(kRoot * sums[k]);
      if (has_diagonal && i - j >= first && i - j < first + count)
        out[i - j] = static_cast<float>(sums[i - j - first]);
    }
  }

  std::size_t length_;
  std::vector<double> values_;  ///< [vectors, length], times the factor.
};

/// Returns the whole matrix, [length, length], with its numbers divided by `divisor`.
template <class Number>
std::vector<double> whole_matrix(std::span<const Number> numbers, std::size_t length,
                                 double divisor) {
  constexpr double kRoot = 1.4142135623730951;
  std::vector<double> matrix(length * length);
  std::size_t at = 0;
  for (std::size_t i = 0; i < length; ++i) {
    for (std::size_t j = 0; j <= i; ++j, ++at) {
      const double value = static_cast<double>(numbers[at]) / (i == j ? 1.0 : kRoot) / divisor;
      matrix[i * length + j] = matrix[j * length + i] = value;
    }
  }
  return matrix;
}

using EigenValues = xt::xtensor<double, 1, xt::layout_type::column_major>;
using EigenVectors = xt::xtensor<double, 2, xt::layout_type::column_major>;

/// Returns the eigenvalues, ascending, and the eigenvectors of a symmetric matrix, of which only
/// the lower triangle (row-major) is read. The entry of largest magnitude of each vector is
/// positive, which fixes the signs.
/// \param who  the name to use in the error.
/// \throws NumericError if LAPACK fails.
inline std::tuple<EigenValues, EigenVectors> eigen(const std::vector<double>& matrix,
                                                   std::size_t size, const char* who) {
  const std::array<std::size_t, 2> extents{size, size};
  EigenValues values;
  EigenVectors vectors;
  try {
    std::tie(values, vectors) = xt::linalg::eigh(xt::adapt(matrix, extents), 'L');
  } catch (const std::runtime_error& error) {
    throw privgrad::NumericError(std::string(who) + ": " + error.what());
  }
  for (std::size_t column = 0; column < size; ++column) {
    std::size_t largest = 0;
    for (std::size_t j = 1; j < size; ++j) {
      if (std::abs(vectors(j, column)) > std::abs(vectors(largest, column))) largest = j;
    }
    if (vectors(largest, column) >= 0.0) continue;
    for (std::size_t j = 0; j < size; ++j) vectors(j, column) = -vectors(j, column);
  }
  return {std::move(values), std::move(vectors)};
}

}  // namespace second_moments
