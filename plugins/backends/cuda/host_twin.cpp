#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "device.hpp"

namespace privgrad::cuda {
namespace {

/// Does its work only in a wait, as late as a GPU might do it.
class TwinQueue final : public Queue {
 public:
  TwinQueue(std::shared_ptr<Device> device, Executor& executor)
      : device_(std::move(device)), executor_(executor) {}

  void launch(const Launch& launch) override {
    std::vector<std::max_align_t> kernel(launch.bytes / sizeof(std::max_align_t) + 1);
    std::memcpy(kernel.data(), launch.kernel, launch.bytes);
    begun_.emplace_back([this, kernel = std::move(kernel), blocks = launch.blocks,
                         run_block = launch.run_block] {
      executor_.for_each_chunk(blocks, [&](std::size_t block) { run_block(kernel.data(), block); });
    });
  }
  void send(void* to, const void* pinned, std::size_t bytes) override { copy(to, pinned, bytes); }
  void fetch(void* pinned, const void* from, std::size_t bytes) override {
    copy(pinned, from, bytes);
  }
  void copy_in(void* to, const void* from, std::size_t bytes) override {
    copy(to, from, bytes);
    wait();
  }
  void copy_out(void* to, const void* from, std::size_t bytes) override {
    copy(to, from, bytes);
    wait();
  }
  void zero(void* memory, std::size_t bytes) override {
    if (bytes > 0) begun_.emplace_back([=] { std::memset(memory, 0, bytes); });
  }
  void wait() override {
    device_->count_wait();
    for (const auto& work : std::exchange(begun_, {})) work();
  }

 private:
  void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) begun_.emplace_back([=] { std::memcpy(to, from, bytes); });
  }

  std::shared_ptr<Device> device_;
  Executor& executor_;
  std::vector<std::function<void()>> begun_;
};

class HostTwin final : public Device, public std::enable_shared_from_this<HostTwin> {
 public:
  explicit HostTwin(Executor& executor) : executor_(executor) {}

  std::string name() const override { return "the host's twin of a GPU"; }
  void* allocate(std::size_t bytes) override {
    void* memory = ::operator new(bytes);
    std::memset(memory, 0xcb, bytes);
    return memory;
  }
  void free(void* memory) noexcept override { ::operator delete(memory); }
  void* allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  void free_pinned(void* memory) noexcept override { free(memory); }
  std::size_t free_bytes() override { return std::numeric_limits<std::size_t>::max(); }
  std::size_t pass_bytes() const override { return std::size_t{64} << 20; }
  std::unique_ptr<Queue> make_queue() override {
    return std::make_unique<TwinQueue>(shared_from_this(), executor_);
  }

 private:
  Executor& executor_;
};

}  // namespace

std::shared_ptr<Device> make_host_twin(Executor& executor) {
  return std::make_shared<HostTwin>(executor);
}

}  // namespace privgrad::cuda
