// Memory that one release hands on to the next.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace privgrad::core {

/// Memory that consecutive releases reuse, to allocate it once.
///
/// Threads: pieces may be taken at the same time.
class ReleaseMemory {
 public:
  using Piece = std::unique_ptr<std::int64_t[]>;

  /// Memory for values to release: the last release's memory, if nothing else holds it any more.
  std::shared_ptr<float[]> values(std::size_t size) {
    if (size != size_ || values_.use_count() != 1) {
      values_ = std::make_shared_for_overwrite<float[]>(size);
      size_ = size;
    }
    // Orders this thread's accesses after the memory's last use by another thread.
    std::atomic_thread_fence(std::memory_order_acquire);
    return values_;
  }

  /// \param size  the largest size of pieces from now on.
  void resize_pieces(std::size_t size) {
    if (size > piece_size_) pieces_.clear();
    piece_size_ = std::max(size, piece_size_);
  }
  Piece take() {
    const std::lock_guard lock(mutex_);
    if (pieces_.empty()) return std::make_unique_for_overwrite<std::int64_t[]>(piece_size_);
    Piece piece = std::move(pieces_.back());
    pieces_.pop_back();
    return piece;
  }
  void give_back(Piece piece) {
    const std::lock_guard lock(mutex_);
    pieces_.push_back(std::move(piece));
  }

 private:
  std::shared_ptr<float[]> values_;
  std::size_t size_ = 0;
  std::size_t piece_size_ = 0;
  std::mutex mutex_;
  std::vector<Piece> pieces_;
};

}  // namespace privgrad::core
