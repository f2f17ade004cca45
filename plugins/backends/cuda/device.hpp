// A device that runs kernels, a GPU or the processor as its twin, with its queues and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "privgrad/executor.hpp"

namespace privgrad::cuda {

/// The device has too little memory left. The program reports a number of rows that would fit.
class OutOfMemory : public std::runtime_error {
 public:
  OutOfMemory() : std::runtime_error("out of memory") {}
};

/// One kernel to run: its name in the compiled modules, its struct, and its function for the host.
struct Launch {
  const char* name;
  const void* kernel;
  std::uint64_t blocks;
  void (*run_block)(const void* kernel, std::uint64_t block);
};

/// A sequence of operations on a device, executed one after the other. Threads: one queue must not
/// be shared.
class Queue {
 public:
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  virtual void launch(const Launch& launch) = 0;
  virtual void copy_in(void* to, const void* from, std::size_t bytes) = 0;
  /// Waits until all earlier operations have finished.
  virtual void copy_out(void* to, const void* from, std::size_t bytes) = 0;
  virtual void zero(void* memory, std::size_t bytes) = 0;
  /// Waits until all operations have finished, before another queue uses their results.
  virtual void wait() = 0;

 protected:
  Queue() = default;
};

/// A place where kernels run.
/// Threads: may be shared.
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// For messages: "GPU 0 (NVIDIA H100 80GB HBM3)".
  virtual std::string name() const = 0;
  /// \throws OutOfMemory
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* memory) noexcept = 0;
  virtual std::size_t free_bytes() = 0;
  /// The most memory that a pass should use if nothing else limits it.
  virtual std::size_t pass_bytes() const = 0;
  virtual std::unique_ptr<Queue> make_queue() = 0;

 protected:
  Device() = default;
};

/// The GPU with this number.
/// \throws ConfigError saying why it cannot be used.
std::shared_ptr<Device> open_gpu(std::size_t number);

/// \returns why open_gpu(number) would throw, in one line; "" if it would not.
std::string why_no_gpu(std::size_t number);

/// The twin: the processor runs exactly the same kernels, block by block. New memory is filled with
/// arbitrary values, so that code cannot rely on zeros.
/// \param executor  outlives the device.
std::shared_ptr<Device> make_host_twin(Executor& executor);

/// Memory on a device.
template <class Value>
class Array {
 public:
  Array() = default;
  Array(std::shared_ptr<Device> device, std::size_t size)
      : device_(std::move(device)), size_(size) {
    if (size > 0) memory_ = static_cast<Value*>(device_->allocate(size * sizeof(Value)));
  }
  Array(Array&& other) noexcept { swap(other); }
  Array& operator=(Array&& other) noexcept {
    Array taken(std::move(other));
    swap(taken);
    return *this;
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() {
    if (memory_ != nullptr) device_->free(memory_);
  }

  Value* data() const noexcept { return memory_; }
  std::size_t size() const noexcept { return size_; }

 private:
  void swap(Array& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
  }

  std::shared_ptr<Device> device_;
  Value* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace privgrad::cuda
