// Exchanges data between the host and a queue, without waiting for each copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device.hpp"
#include "privgrad/error.hpp"

namespace privgrad::cuda {

/// Allocates memory that a step cannot do without.
/// \throws IoError if there is too little.
template <class Value, bool kPinned = false>
Array<Value, kPinned> needed(const std::shared_ptr<Device>& device, std::size_t size) {
  try {
    return {device, size};
  } catch (const OutOfMemory&) {
    throw IoError("backend cuda: " + device->name() + " has no " +
                  std::to_string((size * sizeof(Value) >> 20) + 1) + " MiB left of " +
                  (kPinned ? "the host's pinned memory" : "its memory") + " for a step's data");
  }
}

/// Memory that is allocated piece by piece and released as a whole.
template <bool kPinned>
class Arena {
 public:
  Arena(std::shared_ptr<Device> device, std::size_t bytes) : device_(std::move(device)) {
    blocks_.emplace_back(device_, bytes);
  }

  /// \throws IoError if there is too little.
  template <class Value>
  Value* take(std::size_t size) {
    constexpr std::size_t kAligned = 256;
    const std::size_t bytes = (size * sizeof(Value) + kAligned - 1) / kAligned * kAligned;
    if (used_ + bytes > blocks_.back().size()) {
      blocks_.push_back(
          needed<std::byte, kPinned>(device_, std::max(bytes, 2 * blocks_.back().size())));
      used_ = 0;
    }
    return reinterpret_cast<Value*>(blocks_.back().data() + std::exchange(used_, used_ + bytes));
  }

  /// Releases all pieces; keeps the largest block for later use.
  void clear() {
    blocks_.erase(blocks_.begin(), blocks_.end() - 1);
    used_ = 0;
  }

 private:
  std::shared_ptr<Device> device_;
  std::vector<Array<std::byte, kPinned>> blocks_;  // only the last block is in use
  std::size_t used_ = 0;
};

/// Copies data between the host and a queue without waiting: values to send are copied immediately,
/// and settle() writes fetched values to their outputs.
class Exchange {
 public:
  /// \param bytes  the usual amount in transit; more is allocated when needed.
  Exchange(const std::shared_ptr<Device>& device, Queue& queue, std::size_t bytes)
      : queue_(queue), here_(device, bytes), there_(device, bytes) {}

  /// Returns memory on the device that is valid until settle().
  template <class Value>
  Value* room(std::size_t size) {
    return there_.take<Value>(size);
  }

  template <class Value>
  void send(std::span<const Value> values, Value* to) {
    if (values.empty()) return;
    Value* const own = here_.take<Value>(values.size());
    std::memcpy(own, values.data(), values.size_bytes());
    queue_.send(to, own, values.size_bytes());
  }

  /// Sends places, unless the last list was the same.
  /// \returns the places on the device, valid until settle().
  const std::uint64_t* send_places(std::span<const std::uint64_t> places) {
    if (sent_ != nullptr && std::ranges::equal(places, last_)) return sent_;
    std::uint64_t* const there = room<std::uint64_t>(places.size());
    send(places, there);
    last_.assign(places.begin(), places.end());
    sent_ = there;
    return there;
  }

  template <class Value>
  void fetch(const Value* from, std::span<Value> out) {
    if (out.empty()) return;
    Value* const own = here_.take<Value>(out.size());
    queue_.fetch(own, from, out.size_bytes());
    fetched_.push_back({own, out.data(), out.size_bytes()});
  }

  void settle() {
    const std::vector<Fetched> fetched = std::exchange(fetched_, {});
    queue_.wait();
    for (const Fetched& one : fetched) std::memcpy(one.out, one.pinned, one.bytes);
    here_.clear();
    there_.clear();
    sent_ = nullptr;
  }

  /// Forgets earlier fetches, whose outputs then stay unwritten.
  void drop() noexcept { fetched_.clear(); }

 private:
  struct Fetched {
    const void* pinned;
    void* out;
    std::size_t bytes;
  };

  Queue& queue_;
  Arena<true> here_;
  Arena<false> there_;
  std::vector<Fetched> fetched_;
  std::vector<std::uint64_t> last_;  // the last places sent, and their address
  const std::uint64_t* sent_ = nullptr;
};

}  // namespace privgrad::cuda
