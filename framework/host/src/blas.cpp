#include "privgrad/host/blas.hpp"

#include <cstdlib>

#include "privgrad/instruction_set.hpp"

namespace privgrad::host {

void limit_blas_threads() { ::setenv("OPENBLAS_NUM_THREADS", "1", 1); }

void choose_blas_kernels() {
#if defined(__x86_64__)
  if (std::getenv("PRIVGRAD_INSTRUCTIONS") == nullptr) return;
  const char* kernels = "Prescott";  // OpenBLAS's lowest level for x86-64
  if (instruction_set() >= InstructionSet::avx2) kernels = "Haswell";
  if (instruction_set() >= InstructionSet::avx512) kernels = "SkylakeX";
  ::setenv("OPENBLAS_CORETYPE", kernels, 1);
#endif
}

}  // namespace privgrad::host
