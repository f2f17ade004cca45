#include "compiled_kernels.hpp"

#include "device_code.hpp"

static_assert(privgrad::cuda::kThreadsOfBlock == privgrad::cuda::kThreads);

#ifdef PRIVGRAD_CUDA_KERNELS_FILE
// Embeds the file unchanged, between two symbols.
asm(".section .rodata\n"
    ".balign 64\n"
    "kPrivgradCudaKernels:\n"
    ".incbin \"" PRIVGRAD_CUDA_KERNELS_FILE
    "\"\n"
    ".balign 8\n"
    ".previous\n");
extern "C" __attribute__((visibility("hidden"))) const unsigned char kPrivgradCudaKernels[];

const void* privgrad::cuda::compiled_kernels() noexcept { return kPrivgradCudaKernels; }
#else
const void* privgrad::cuda::compiled_kernels() noexcept { return nullptr; }
#endif
