// A device that runs kernels: a GPU, or the processor in its place, with queues and memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "privgrad/executor.hpp"

namespace privgrad::cuda {

/// Thrown when the device has too little memory left. The program reports how many rows would fit.
class OutOfMemory : public std::runtime_error {
 public:
  OutOfMemory() : std::runtime_error("out of memory") {}
};

/// One kernel to run: its name in the compiled modules, its struct, and its function for the host.
struct Launch {
  const char* name;
  const void* kernel;
  std::size_t bytes;  // size of the struct
  std::uint64_t blocks;
  void (*run_block)(const void* kernel, std::uint64_t block);
};

/// A sequence of operations on a device, executed one after the other. Threads: one queue must not
/// be shared.
class Queue {
 public:
  /// No operation is still running afterwards.
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  virtual void launch(const Launch& launch) = 0;
  /// send() and fetch() need pinned memory, which must not be changed or read before a wait().
  virtual void send(void* to, const void* pinned, std::size_t bytes) = 0;
  virtual void fetch(void* pinned, const void* from, std::size_t bytes) = 0;
  /// copy_in() and copy_out() accept any memory of the host, and wait if there is data to copy.
  virtual void copy_in(void* to, const void* from, std::size_t bytes) = 0;
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

  /// Returns the device's name for messages: "GPU 0 (NVIDIA H100 80GB HBM3)".
  virtual std::string name() const = 0;
  /// \throws OutOfMemory if the device has too little memory left.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* memory) noexcept = 0;
  /// Returns memory of the host that a queue can copy while the host does something else.
  /// \throws OutOfMemory if the host has too little memory left.
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(void* memory) noexcept = 0;
  virtual std::size_t free_bytes() = 0;
  /// Returns the most memory that a pass should use if nothing else limits it.
  virtual std::size_t pass_bytes() const = 0;
  virtual std::unique_ptr<Queue> make_queue() = 0;

  /// Returns how often the host has waited for a queue.
  std::uint64_t waits() const noexcept { return waits_; }
  void count_wait() noexcept { ++waits_; }

 protected:
  Device() = default;

 private:
  std::atomic<std::uint64_t> waits_ = 0;
};

/// Returns the GPU with this number.
/// \throws ConfigError saying why it cannot be used.
std::shared_ptr<Device> open_gpu(std::size_t number);

/// \returns the reason in one line if open_gpu(number) would throw; otherwise "".
std::string why_no_gpu(std::size_t number);

/// Makes the twin of a device: the processor runs exactly the same kernels, block by block. New
/// memory has arbitrary values, so that code cannot rely on zeros. A queue starts nothing before
/// a wait, so that code cannot use results without a wait, or change data that are not yet
/// copied.
/// \param executor  outlives the device.
std::shared_ptr<Device> make_host_twin(Executor& executor);

/// Memory on a device, or pinned memory of the host.
template <class Value, bool kPinned = false>
class Array {
 public:
  Array() = default;
  Array(std::shared_ptr<Device> device, std::size_t size)
      : device_(std::move(device)), size_(size) {
    if (size == 0) return;
    const std::size_t bytes = size * sizeof(Value);
    memory_ =
        static_cast<Value*>(kPinned ? device_->allocate_pinned(bytes) : device_->allocate(bytes));
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
    if (memory_ == nullptr) return;
    if (kPinned) {
      device_->free_pinned(memory_);
    } else {
      device_->free(memory_);
    }
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
