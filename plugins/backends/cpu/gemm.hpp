#pragma once

#include <cstddef>

namespace privgrad::cpu {

/// A row-major matrix, or its transpose.
struct MatrixView {
  const float* data = nullptr;
  std::size_t stride = 0;  ///< From one stored row to the next, in floats.
  bool transposed = false;
};

/// Makes OpenBLAS, of which a process has one, use one thread per call: the parallelism here is
/// over calls, and what several threads add up depends on how many there are.
void use_one_blas_thread();

/// product = a b, or product += a b. Shapes: a [rows, inner], b [inner, columns], product [rows,
/// columns] with `stride` floats from row to row. The result is a function of the shapes and values
/// alone; a row of it depends on its row of a, but its rounding on that row's place.
void multiply(std::size_t rows, std::size_t columns, std::size_t inner, MatrixView a, MatrixView b,
              bool add_up, float* product, std::size_t stride);

}  // namespace privgrad::cpu
