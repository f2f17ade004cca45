// GPUs, through the driver's own interface. The driver is loaded only when a GPU is requested, so
// the plugin can be built, loaded and listed without one.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <mutex>
#include <string>

#include "compiled_kernels.hpp"
#include "device.hpp"
#include "privgrad/error.hpp"

namespace privgrad::cuda {
namespace {

// The used part of libcuda.so.1 ("CUDA Driver API"); its types have had these sizes since CUDA 4.
using Result = int;
using DeviceNumber = int;
using Address = std::uint64_t;
using Context = struct ContextOf*;
using Module = struct ModuleOf*;
using Function = struct FunctionOf*;
using Stream = struct StreamOf*;

constexpr Result kSuccess = 0;
constexpr Result kOutOfMemory = 2;
constexpr int kMajorCapability = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kMinorCapability = 76;
constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
constexpr int kLeastMajor = 8;  // minimum compute capability, for which the kernels are compiled

struct Driver {
  Result (*cuInit)(unsigned) = nullptr;
  Result (*cuDriverGetVersion)(int*) = nullptr;
  Result (*cuDeviceGetCount)(int*) = nullptr;
  Result (*cuDeviceGet)(DeviceNumber*, int) = nullptr;
  Result (*cuDeviceGetName)(char*, int, DeviceNumber) = nullptr;
  Result (*cuDeviceGetAttribute)(int*, int, DeviceNumber) = nullptr;
  Result (*cuDevicePrimaryCtxRetain)(Context*, DeviceNumber) = nullptr;
  Result (*cuDevicePrimaryCtxRelease_v2)(DeviceNumber) = nullptr;
  Result (*cuCtxSetCurrent)(Context) = nullptr;
  Result (*cuModuleLoadData)(Module*, const void*) = nullptr;
  Result (*cuModuleUnload)(Module) = nullptr;
  Result (*cuModuleGetFunction)(Function*, Module, const char*) = nullptr;
  Result (*cuMemGetInfo_v2)(std::size_t*, std::size_t*) = nullptr;
  Result (*cuMemAlloc_v2)(Address*, std::size_t) = nullptr;
  Result (*cuMemFree_v2)(Address) = nullptr;
  Result (*cuMemAllocHost_v2)(void**, std::size_t) = nullptr;
  Result (*cuMemFreeHost)(void*) = nullptr;
  Result (*cuMemsetD8Async)(Address, unsigned char, std::size_t, Stream) = nullptr;
  Result (*cuMemcpyHtoDAsync_v2)(Address, const void*, std::size_t, Stream) = nullptr;
  Result (*cuMemcpyDtoHAsync_v2)(void*, Address, std::size_t, Stream) = nullptr;
  Result (*cuStreamCreate)(Stream*, unsigned) = nullptr;
  Result (*cuStreamDestroy_v2)(Stream) = nullptr;
  Result (*cuStreamSynchronize)(Stream) = nullptr;
  Result (*cuLaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                           unsigned, Stream, void**, void**) = nullptr;
  Result (*cuGetErrorName)(Result, const char**) = nullptr;

  std::string missing;  // why there is no driver; otherwise ""
};

Driver load_driver() {
  Driver driver;
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    driver.missing = "there is no NVIDIA driver (libcuda.so.1 was not found)";
    return driver;
  }
  const auto find = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr && driver.missing.empty()) {
      driver.missing = std::string("the NVIDIA driver is too old: it has no ") + name;
    }
  };
#define PRIVGRAD_CUDA_FIND(name) find(driver.name, #name)
  PRIVGRAD_CUDA_FIND(cuInit);
  PRIVGRAD_CUDA_FIND(cuDriverGetVersion);
  PRIVGRAD_CUDA_FIND(cuDeviceGetCount);
  PRIVGRAD_CUDA_FIND(cuDeviceGet);
  PRIVGRAD_CUDA_FIND(cuDeviceGetName);
  PRIVGRAD_CUDA_FIND(cuDeviceGetAttribute);
  PRIVGRAD_CUDA_FIND(cuDevicePrimaryCtxRetain);
  PRIVGRAD_CUDA_FIND(cuDevicePrimaryCtxRelease_v2);
  PRIVGRAD_CUDA_FIND(cuCtxSetCurrent);
  PRIVGRAD_CUDA_FIND(cuModuleLoadData);
  PRIVGRAD_CUDA_FIND(cuModuleUnload);
  PRIVGRAD_CUDA_FIND(cuModuleGetFunction);
  PRIVGRAD_CUDA_FIND(cuMemGetInfo_v2);
  PRIVGRAD_CUDA_FIND(cuMemAlloc_v2);
  PRIVGRAD_CUDA_FIND(cuMemFree_v2);
  PRIVGRAD_CUDA_FIND(cuMemAllocHost_v2);
  PRIVGRAD_CUDA_FIND(cuMemFreeHost);
  PRIVGRAD_CUDA_FIND(cuMemsetD8Async);
  PRIVGRAD_CUDA_FIND(cuMemcpyHtoDAsync_v2);
  PRIVGRAD_CUDA_FIND(cuMemcpyDtoHAsync_v2);
  PRIVGRAD_CUDA_FIND(cuStreamCreate);
  PRIVGRAD_CUDA_FIND(cuStreamDestroy_v2);
  PRIVGRAD_CUDA_FIND(cuStreamSynchronize);
  PRIVGRAD_CUDA_FIND(cuLaunchKernel);
  PRIVGRAD_CUDA_FIND(cuGetErrorName);
#undef PRIVGRAD_CUDA_FIND
  return driver;
}

/// Returns the driver, one per process, because it cannot be unloaded.
const Driver& driver() {
  static const Driver loaded = load_driver();
  return loaded;
}

std::string name_of(Result result) {
  const char* name = nullptr;
  if (driver().cuGetErrorName(result, &name) == kSuccess && name != nullptr) return name;
  return "error " + std::to_string(result);
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// \returns why no GPU at all can be used; "" if one might work.
std::string why_no_driver() {
  if (!driver().missing.empty()) return driver().missing;
  int version = 0;
  if (driver().cuDriverGetVersion(&version) != kSuccess || version < kNeededDriver) {
    return "the NVIDIA driver is too old: it supports CUDA " + version_text(version) + ", but " +
           version_text(kNeededDriver) + " or newer is needed";
  }
  if (const Result result = driver().cuInit(0); result != kSuccess) {
    return "the NVIDIA driver finds no usable GPU (" + name_of(result) + ")";
  }
  return {};
}

/// The properties of a GPU that can be queried without initialising it.
struct Found {
  DeviceNumber number = 0;
  std::string name;
  std::string why_not;
};

Found find_gpu(std::size_t number) {
  Found found;
  found.why_not = why_no_driver();
  if (!found.why_not.empty()) return found;
  int count = 0;
  if (driver().cuDeviceGetCount(&count) != kSuccess || count == 0) {
    found.why_not = "there is no GPU";
    return found;
  }
  if (number >= static_cast<std::size_t>(count)) {
    found.why_not = "there is no GPU " + std::to_string(number) +
                    "; the numbers on this machine are 0 to " + std::to_string(count - 1);
    return found;
  }
  char name[256] = {};
  int major = 0, minor = 0;  // its compute capability
  if (driver().cuDeviceGet(&found.number, static_cast<int>(number)) != kSuccess ||
      driver().cuDeviceGetName(name, sizeof name, found.number) != kSuccess ||
      driver().cuDeviceGetAttribute(&major, kMajorCapability, found.number) != kSuccess ||
      driver().cuDeviceGetAttribute(&minor, kMinorCapability, found.number) != kSuccess) {
    found.why_not = "the NVIDIA driver cannot describe GPU " + std::to_string(number);
    return found;
  }
  found.name = "GPU " + std::to_string(number) + " (" + name + ")";
  if (major < kLeastMajor) {
    found.why_not = found.name + " has compute capability " + std::to_string(major) + "." +
                    std::to_string(minor) + ", but " + std::to_string(kLeastMajor) +
                    ".0 or newer is needed";
  } else if (compiled_kernels() == nullptr) {
    found.why_not = "this build has no code for GPUs: nvcc was not found when it was configured";
  }
  return found;
}

class Gpu final : public Device, public std::enable_shared_from_this<Gpu> {
 public:
  explicit Gpu(const Found& found) : number_(found.number), name_(found.name) {
    check(driver().cuDevicePrimaryCtxRetain(&context_, number_), "be initialised");
    try {
      use();
      const Result loaded = driver().cuModuleLoadData(&module_, compiled_kernels());
      check(loaded, "load the kernels");
    } catch (...) {
      driver().cuDevicePrimaryCtxRelease_v2(number_);
      throw;
    }
  }
  ~Gpu() override {
    driver().cuCtxSetCurrent(context_);
    driver().cuModuleUnload(module_);
    driver().cuDevicePrimaryCtxRelease_v2(number_);
  }

  std::string name() const override { return name_; }

  void* allocate(std::size_t bytes) override {
    use();
    Address address = 0;
    const Result result = driver().cuMemAlloc_v2(&address, bytes);
    if (result == kOutOfMemory) throw OutOfMemory();
    check(result, "allocate memory");
    return std::bit_cast<void*>(address);
  }

  void free(void* memory) noexcept override {
    driver().cuCtxSetCurrent(context_);
    driver().cuMemFree_v2(reinterpret_cast<Address>(memory));
  }

  void* allocate_pinned(std::size_t bytes) override {
    use();
    void* memory = nullptr;
    const Result result = driver().cuMemAllocHost_v2(&memory, bytes);
    if (result == kOutOfMemory) throw OutOfMemory();
    check(result, "give pinned memory");
    return memory;
  }

  void free_pinned(void* memory) noexcept override {
    driver().cuCtxSetCurrent(context_);
    driver().cuMemFreeHost(memory);
  }

  std::size_t free_bytes() override {
    use();
    std::size_t free = 0, total = 0;
    check(driver().cuMemGetInfo_v2(&free, &total), "report its free memory");
    return free;
  }

  std::size_t pass_bytes() const override { return std::size_t{2} << 30; }

  std::unique_ptr<Queue> make_queue() override;

  Context context() const { return context_; }

  /// Makes this GPU current on the calling thread.
  void use() const { check(driver().cuCtxSetCurrent(context_), "be used"); }

  Function function(const char* name) {
    const std::lock_guard lock(mutex_);
    Function& found = functions_[name];
    if (found == nullptr) {
      check(driver().cuModuleGetFunction(&found, module_, name),
            "find the kernel " + std::string(name));
    }
    return found;
  }

  bool has_failed() const { return has_failed_; }

  /// After a failure all later calls fail, too, because the driver returns an error for each.
  void check(Result result, const std::string& what) const {
    if (result == kSuccess) return;
    has_failed_ = true;
    throw IoError("backend cuda: " + name_ + " could not " + what + " (" + name_of(result) + ")");
  }

 private:
  DeviceNumber number_;
  std::string name_;
  Context context_ = nullptr;
  Module module_ = nullptr;
  mutable std::atomic<bool> has_failed_ = false;
  std::mutex mutex_;
  std::map<std::string, Function> functions_;
};

class GpuQueue final : public Queue {
 public:
  explicit GpuQueue(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {
    gpu_->use();
    gpu_->check(driver().cuStreamCreate(&stream_, kNonBlocking), "create a stream");
  }
  ~GpuQueue() override {
    driver().cuCtxSetCurrent(gpu_->context());
    driver().cuStreamSynchronize(stream_);
    driver().cuStreamDestroy_v2(stream_);
  }

  void launch(const Launch& launch) override {
    gpu_->use();
    constexpr std::uint64_t kMostBlocks = (std::uint64_t{1} << 31) - 1;
    if (launch.blocks > kMostBlocks) {
      throw ConfigError("backend cuda: the kernel " + std::string(launch.name) + " needs " +
                        std::to_string(launch.blocks) + " blocks; at most 2^31 - 1 are allowed");
    }
    void* arguments[] = {const_cast<void*>(launch.kernel)};
    gpu_->check(
        driver().cuLaunchKernel(gpu_->function(launch.name), static_cast<unsigned>(launch.blocks),
                                1, 1, kThreadsOfBlock, 1, 1, 0, stream_, arguments, nullptr),
        "run " + std::string(launch.name));
  }

  void send(void* to, const void* pinned, std::size_t bytes) override {
    if (bytes == 0) return;
    gpu_->use();
    gpu_->check(
        driver().cuMemcpyHtoDAsync_v2(reinterpret_cast<Address>(to), pinned, bytes, stream_),
        "receive data");
  }

  void fetch(void* pinned, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    gpu_->use();
    gpu_->check(
        driver().cuMemcpyDtoHAsync_v2(pinned, reinterpret_cast<Address>(from), bytes, stream_),
        "return data");
  }

  // Memory that is not pinned uses the same driver calls. Both functions wait, because the caller
  // may change its memory, or read it, after they return.
  void copy_in(void* to, const void* from, std::size_t bytes) override {
    send(to, from, bytes);
    if (bytes > 0) wait();
  }
  void copy_out(void* to, const void* from, std::size_t bytes) override {
    fetch(to, from, bytes);
    if (bytes > 0) wait();
  }

  void zero(void* memory, std::size_t bytes) override {
    if (bytes == 0) return;
    gpu_->use();
    gpu_->check(driver().cuMemsetD8Async(reinterpret_cast<Address>(memory), 0, bytes, stream_),
                "set memory to 0");
  }

  void wait() override {
    gpu_->count_wait();
    gpu_->use();
    gpu_->check(driver().cuStreamSynchronize(stream_), "finish its work");
  }

 private:
  std::shared_ptr<Gpu> gpu_;
  Stream stream_ = nullptr;
};

std::unique_ptr<Queue> Gpu::make_queue() { return std::make_unique<GpuQueue>(shared_from_this()); }

}  // namespace

std::string why_no_gpu(std::size_t number) { return find_gpu(number).why_not; }

/// A GPU stays open until the process ends, because creating a context and loading kernels takes
/// some tenths of a second; a GPU that has failed is reopened.
std::shared_ptr<Device> open_gpu(std::size_t number) {
  const Found found = find_gpu(number);
  if (!found.why_not.empty()) throw ConfigError("backend cuda: " + found.why_not);
  // Never destroyed, because at the end of the process the driver may already be unloaded.
  static auto& opened = *new std::map<std::size_t, std::shared_ptr<Gpu>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Gpu>& gpu = opened[number];
  if (gpu == nullptr || gpu->has_failed()) {
    gpu.reset();  // its context is destroyed with the last program that uses it
    gpu = std::make_shared<Gpu>(found);
  }
  return gpu;
}

}  // namespace privgrad::cuda
