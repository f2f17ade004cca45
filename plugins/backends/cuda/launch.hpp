// Launches a kernel from its struct: by name on a GPU, by calling its function on the twin.
#pragma once

#include <cstring>
#include <type_traits>

#include "device.hpp"
#include "kernel_list.hpp"

namespace privgrad::cuda {

template <class Kernel>
struct KernelName;

#define PRIVGRAD_CUDA_NAME(name, ...)                       \
  template <>                                               \
  struct KernelName<__VA_ARGS__> {                          \
    static constexpr const char* value = "privgrad_" #name; \
  };
PRIVGRAD_CUDA_KERNELS(PRIVGRAD_CUDA_NAME)
#undef PRIVGRAD_CUDA_NAME

template <class Kernel>
void run_block(const void* kernel, std::uint64_t block) {
  typename Kernel::Shared shared;
  // Shared memory has arbitrary contents, as on a device, where an earlier block has used it.
  if constexpr (!std::is_empty_v<typename Kernel::Shared>) {
    std::memset(static_cast<void*>(&shared), 0xcb, sizeof shared);
  }
  static_cast<const Kernel*>(kernel)->run(block, shared);
}

template <class Kernel>
void launch(Queue& queue, const Kernel& kernel, std::uint64_t blocks) {
  static_assert(std::is_trivially_copyable_v<Kernel>, "it is copied to the device");
  if (blocks == 0) return;
  queue.launch({KernelName<Kernel>::value, &kernel, sizeof kernel, blocks, run_block<Kernel>});
}

template <class Kernel>
void launch(Queue& queue, const Kernel& kernel) {
  launch(queue, kernel, kernel.blocks());
}

/// Launches a kernel that has one thread per item.
template <class Use>
void launch_each(Queue& queue, const Use& use) {
  launch(queue, ForEach<Use>{use}, (use.count + kThreads - 1) / kThreads);
}

/// Launches a product with a tile that fits its columns. (The number of rows is private, so it does
/// not affect the choice.)
template <class A, class B>
void launch_product(Queue& queue, const A& a, const B& b, const Extents& extents,
                    const Result& result) {
  if (extents.columns > NarrowTile::kColumns) {
    launch(queue, Product<A, B, WideTile>{a, b, extents, result});
  } else {
    launch(queue, Product<A, B, NarrowTile>{a, b, extents, result});
  }
}

}  // namespace privgrad::cuda
