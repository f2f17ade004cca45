// Shows the thread sanitizer the order of a parallel loop's chunks and its caller.
#pragma once

#include <atomic>
#include <cstddef>

namespace privgrad::core {

/// Orders the caller's work before the chunks of one parallel loop, and the chunks before the
/// caller's next work. TBB does so itself, but in a library that the thread sanitizer does not see;
/// repeating it here prevents reports of races that are not ours.
///
/// Not inline: executor.cpp, with TBB's code in it, is compiled without that sanitizer.
class HandOver {
 public:
  HandOver();
  HandOver(const HandOver&) = delete;
  HandOver& operator=(const HandOver&) = delete;
  ~HandOver();

  /// Encloses the work of one chunk, even if it throws.
  class Chunk {
   public:
    explicit Chunk(HandOver& all);
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;
    ~Chunk();

   private:
    HandOver& all_;
  };

 private:
  std::atomic<std::size_t> done_;
};

}  // namespace privgrad::core
