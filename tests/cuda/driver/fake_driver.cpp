// A libcuda.so.1 without a GPU: the functions of the driver that the backend `cuda` calls. Memory
// is the processor's, and the processor runs the kernels. This tests the path to a GPU without one:
// names of kernels, their arguments, copies, and all errors.
//
// FAKE_CUDA configures it, and causes errors; pairs of a word and a number:
//   version 12040   the result of cuDriverGetVersion(); default 13000
//   devices 2       the number of GPUs; default 1
//   major 7         their compute capability; default 9
//   memory 100      MiB of each GPU; default 4096
//   launches 30     how many launches succeed before the GPU fails for good
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

#include "launch.hpp"

namespace {

using namespace privgrad::cuda;

constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kNotFound = 500,
              kLaunchFailed = 719;

using RunBlock = void (*)(const void*, std::uint64_t);

/// Returns every kernel, by its name.
const std::map<std::string, RunBlock>& kernels() {
  static const std::map<std::string, RunBlock> all{
#define PRIVGRAD_FAKE_KERNEL(name, ...) {"privgrad_" #name, run_block<__VA_ARGS__>},
      PRIVGRAD_CUDA_KERNELS(PRIVGRAD_FAKE_KERNEL)};
  return all;
}

long setting(const std::string& wanted, long otherwise) {
  const char* text = std::getenv("FAKE_CUDA");
  std::istringstream words(text == nullptr ? "" : text);
  std::string name;
  for (long value = 0; words >> name >> value;) {
    if (name == wanted) return value;
  }
  return otherwise;
}

struct Gpu {
  std::mutex mutex;
  std::map<std::uint64_t, std::size_t> memory;  // sizes, by address
  std::size_t used = 0;
  long launches = 0;
  bool has_failed = false;
};

Gpu& gpu() {
  static Gpu the_gpu;
  return the_gpu;
}

std::size_t total() { return static_cast<std::size_t>(setting("memory", 4096)) << 20; }

/// Whether all of this memory was allocated and not freed.
bool is_own(std::uint64_t address, std::size_t bytes) {
  const auto after = gpu().memory.upper_bound(address);
  if (after == gpu().memory.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return address + bytes <= begin + size;
}

/// After the first failure, all calls fail.
template <class Work>
int unless_failed(const Work& work) {
  const std::lock_guard lock(gpu().mutex);
  return gpu().has_failed ? kLaunchFailed : work();
}

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default"))) int

FAKE cuInit(unsigned) { return setting("devices", 1) > 0 ? kSuccess : kNoDevice; }
FAKE cuDriverGetVersion(int* version) {
  *version = static_cast<int>(setting("version", 13000));
  return kSuccess;
}
FAKE cuDeviceGetCount(int* count) {
  *count = static_cast<int>(setting("devices", 1));
  return kSuccess;
}
FAKE cuDeviceGet(int* device, int number) {
  *device = number;
  return kSuccess;
}
FAKE cuDeviceGetName(char* name, int, int) {
  std::strcpy(name, "Fake");
  return kSuccess;
}
FAKE cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? static_cast<int>(setting("major", 9)) : 0;
  return attribute == 75 || attribute == 76 ? kSuccess : kInvalidValue;
}
FAKE cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &gpu();
  return kSuccess;
}
FAKE cuDevicePrimaryCtxRelease_v2(int) { return kSuccess; }
FAKE cuCtxSetCurrent(void* context) { return context == &gpu() ? kSuccess : kInvalidValue; }
FAKE cuModuleLoadData(void** module, const void* image) {
  // The first word of fatbinary's output.
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  *module = &gpu();
  return magic == 0xba55ed50u ? kSuccess : kInvalidValue;
}
FAKE cuModuleUnload(void*) { return kSuccess; }
FAKE cuModuleGetFunction(void** function, void*, const char* name) {
  const auto found = kernels().find(name);
  if (found == kernels().end()) return kNotFound;
  *function = reinterpret_cast<void*>(found->second);
  return kSuccess;
}
FAKE cuMemGetInfo_v2(std::size_t* free, std::size_t* all) {
  return unless_failed([&] {
    *all = total();
    *free = total() - gpu().used;
    return kSuccess;
  });
}
FAKE cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  return unless_failed([&] {
    if (gpu().used + bytes > total()) return kOutOfMemory;
    void* memory = std::malloc(bytes);
    std::memset(memory, 0xcb, bytes);
    *address = reinterpret_cast<std::uint64_t>(memory);
    gpu().memory[*address] = bytes;
    gpu().used += bytes;
    return kSuccess;
  });
}
FAKE cuMemFree_v2(std::uint64_t address) {
  return unless_failed([&] {
    const auto found = gpu().memory.find(address);
    if (found == gpu().memory.end()) return kInvalidValue;
    gpu().used -= found->second;
    gpu().memory.erase(found);
    std::free(reinterpret_cast<void*>(address));
    return kSuccess;
  });
}
FAKE cuMemAllocHost_v2(void** memory, std::size_t bytes) {
  return unless_failed([&] {
    *memory = std::malloc(bytes);
    std::memset(*memory, 0xcb, bytes);
    return kSuccess;
  });
}
FAKE cuMemFreeHost(void* memory) {
  std::free(memory);
  return kSuccess;
}
FAKE cuMemsetD8Async(std::uint64_t address, unsigned char value, std::size_t bytes, void*) {
  return unless_failed([&] {
    if (!is_own(address, bytes)) return kInvalidValue;
    std::memset(reinterpret_cast<void*>(address), value, bytes);
    return kSuccess;
  });
}
FAKE cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void*) {
  return unless_failed([&] {
    if (!is_own(to, bytes)) return kInvalidValue;
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return kSuccess;
  });
}
FAKE cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void*) {
  return unless_failed([&] {
    if (!is_own(from, bytes)) return kInvalidValue;
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return kSuccess;
  });
}
FAKE cuStreamCreate(void** stream, unsigned) {
  *stream = &gpu();
  return kSuccess;
}
FAKE cuStreamDestroy_v2(void*) { return kSuccess; }
FAKE cuStreamSynchronize(void*) {
  return unless_failed([] { return kSuccess; });
}

FAKE cuLaunchKernel(void* function, unsigned blocks, unsigned down, unsigned deep, unsigned threads,
                    unsigned, unsigned, unsigned, void*, void** arguments, void**) {
  return unless_failed([&] {
    if (down != 1 || deep != 1 || threads != kThreads) return kInvalidValue;
    if (++gpu().launches > setting("launches", 1L << 40)) {
      gpu().has_failed = true;
      return kLaunchFailed;
    }
    for (std::uint64_t block = 0; block < blocks; ++block) {
      reinterpret_cast<RunBlock>(function)(arguments[0], block);
    }
    return kSuccess;
  });
}
FAKE cuGetErrorName(int result, const char** name) {
  static const std::map<int, const char*> names{{kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
                                                {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
                                                {kNotFound, "CUDA_ERROR_NOT_FOUND"},
                                                {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"}};
  const auto found = names.find(result);
  if (found == names.end()) return kInvalidValue;
  *name = found->second;
  return kSuccess;
}
