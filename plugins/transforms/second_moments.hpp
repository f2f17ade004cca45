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

#include "privgrad/error.hpp"

// OpenBLAS's cblas.h and the one inside xtensor-blas cannot be included together.
extern "C" void openblas_set_num_threads(int count);
extern "C" int openblas_get_num_threads(void);

// Second moments of examples, as transforms release them and take them apart. Included by single
// plugins, each of which is compiled with -ffp-contract=off: a contribution has the same bits on every
// processor.
namespace second_moments {

/// One BLAS thread as long as it lives: with more, sums split differently, and what is computed would
/// depend on the number of cores.
class OneBlasThread {
 public:
  OneBlasThread() : before_(openblas_get_num_threads()) { openblas_set_num_threads(1); }
  OneBlasThread(const OneBlasThread&) = delete;
  OneBlasThread& operator=(const OneBlasThread&) = delete;
  ~OneBlasThread() { openblas_set_num_threads(before_); }

 private:
  int before_;
};

/// Numbers on and below the diagonal.
inline std::size_t triangle(std::size_t size) { return size * (size + 1) / 2; }

/// Features seen as [before, length, after]: before * after vectors of `length` numbers.
struct Vectors {
  std::size_t before = 1, length = 1, after = 1;

  std::size_t count() const { return before * after; }
};

/// The factor that brings features within a norm: min(1, most / ||x||), with the sum in the order of
/// the features. Squares of float32 are exact in double.
inline double factor_within(std::span<const float> features, double most) {
  double square = 0.0;
  for (const float x : features) square += static_cast<double>(x) * static_cast<double>(x);
  const double norm = std::sqrt(square);
  return norm <= most ? 1.0 : most / norm;
}

/// The lower triangle of the sum over the vectors x_p of factor^2 x_p x_p^T, row after row, what is off
/// the diagonal multiplied by the root of 2: so its Euclidean norm is the Frobenius norm of the whole
/// matrix, which is at most the sum of factor^2 ||x_p||^2 (the triangle inequality, and ||x x^T|| =
/// ||x||^2). With noise of one size in each number, what is off the diagonal has noise smaller by
/// the root of 2, at the same sensitivity as where the triangle is released as it is.
///
/// One product after the other, in a fixed order, in double: the same bits beside any other examples.
/// \param out  [triangle(length)].
inline void add_outer_products(std::span<const float> features, const Vectors& vectors,
                               double factor, std::span<float> out) {
  constexpr double kRoot = 1.4142135623730951;
  const std::size_t length = vectors.length;
  std::vector<double> x(length);
  if (vectors.count() == 1) {  // nothing to add up, so no memory for sums: they are what takes long
    for (std::size_t j = 0; j < length; ++j) x[j] = factor * static_cast<double>(features[j]);
    float* row = out.data();
    for (std::size_t i = 0; i < length; row += ++i) {
      // 0 is added as below, where it makes of -0 what it is in a sum.
      for (std::size_t j = 0; j < i; ++j) row[j] = static_cast<float>(kRoot * (0.0 + x[i] * x[j]));
      row[i] = static_cast<float>(x[i] * x[i]);
    }
    return;
  }
  std::vector<double> sums(triangle(length));
  for (std::size_t b = 0; b < vectors.before; ++b) {
    for (std::size_t a = 0; a < vectors.after; ++a) {
      for (std::size_t j = 0; j < length; ++j)
        x[j] = factor * static_cast<double>(features[(b * length + j) * vectors.after + a]);
      double* row = sums.data();
      for (std::size_t i = 0; i < length; row += ++i) {
        for (std::size_t j = 0; j <= i; ++j) row[j] += x[i] * x[j];
      }
    }
  }
  std::size_t at = 0;
  for (std::size_t i = 0; i < length; ++i) {
    for (std::size_t j = 0; j <= i; ++j, ++at)
      out[at] = static_cast<float>(i == j ? sums[at] : kRoot * sums[at]);
  }
}

/// The whole matrix, [length, length], of numbers as above, each divided by `divisor`.
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

/// Of a symmetric matrix, of which the lower triangle (row-major) is read; ascending. The entry of
/// largest magnitude of each vector is positive, which fixes the signs.
/// \param who  for the error.
/// \throws NumericError if LAPACK finds none.
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
