#include "gemm.hpp"

#include <cblas.h>

#include <string>

#include "privgrad/error.hpp"

namespace privgrad::cpu {
namespace {

blasint to_blas(std::size_t size) {
  if (size > 0x7fffffff) {
    throw ConfigError("backend cpu: a matrix has an extent of " + std::to_string(size) +
                      ", allowed is up to 2147483647");
  }
  return static_cast<blasint>(size);
}

}  // namespace

void use_one_blas_thread() {
  if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
}

void multiply(std::size_t rows, std::size_t columns, std::size_t inner, MatrixView a, MatrixView b,
              bool add_up, float* product, std::size_t stride) {
  cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
              b.transposed ? CblasTrans : CblasNoTrans, to_blas(rows), to_blas(columns),
              to_blas(inner), 1.0f, a.data, to_blas(a.stride), b.data, to_blas(b.stride),
              add_up ? 1.0f : 0.0f, product, to_blas(stride));
}

}  // namespace privgrad::cpu
