// The device's entry points: one for each kernel, with its struct as the only argument.
#include "kernel_list.hpp"

namespace privgrad::cuda {

#define PRIVGRAD_CUDA_ENTRY(name, ...)                              \
  extern "C" __global__ void __launch_bounds__(kThreads)            \
      privgrad_##name(const __grid_constant__ __VA_ARGS__ kernel) { \
    __shared__ typename __VA_ARGS__::Shared shared;                 \
    kernel.run(blockIdx.x, shared);                                 \
  }
PRIVGRAD_CUDA_KERNELS(PRIVGRAD_CUDA_ENTRY)

}  // namespace privgrad::cuda
