// The compiled kernels, embedded in the program, and the driver version that they need.
#pragma once

namespace privgrad::cuda {

/// The number of threads in a block; repeats kThreads so that device_code.hpp is not included here.
inline constexpr unsigned kThreadsOfBlock = 256;

/// The minimum version of CUDA, times 1000, that the driver must support: the version of the
/// compiler of the kernels.
#ifdef PRIVGRAD_CUDA_MAJOR
inline constexpr int kNeededDriver = PRIVGRAD_CUDA_MAJOR * 1000;
#else
inline constexpr int kNeededDriver = 12000;
#endif

/// The kernels for sm_80 and sm_90, and as PTX for later GPUs; null in a build without nvcc.
const void* compiled_kernels() noexcept;

}  // namespace privgrad::cuda
