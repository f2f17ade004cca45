// Shows the thread sanitizer that a parallel loop's chunks run between two steps of the caller.
#pragma once

#include <atomic>
#include <cstddef>

namespace privgrad::core {

/// Orders the caller's earlier work before the chunks of a parallel loop, and the chunks before the
/// caller's next work. TBB itself ensures this, but in a library that the thread sanitizer does not
/// see; repeating it here prevents false reports of races.
///
/// Not inline, because executor.cpp, which includes TBB's code, is compiled without this sanitizer.
class HandOver {
 public:
  HandOver();
  HandOver(const HandOver&) = delete;
  HandOver& operator=(const HandOver&) = delete;
  ~HandOver();

  /// Marks the beginning and the end of one chunk's work, even if the work throws.
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
