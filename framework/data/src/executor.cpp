#include "privgrad/data/executor.hpp"

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>

#include "hand_over.hpp"
#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

class TbbExecutor final : public Executor {
 public:
  explicit TbbExecutor(int threads)
      : limit_(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads)),
        arena_(threads) {}

  void for_each_chunk(std::size_t chunks, const std::function<void(std::size_t)>& body) override {
    HandOver hand_over;
    arena_.execute([&] {
      // A thread that waits for the end of an inner loop must not start a chunk of an outer loop:
      // then one client would run inside another client's step, and need memory for both.
      tbb::this_task_arena::isolate([&] {
        tbb::parallel_for(
            std::size_t{0}, chunks,
            [&](std::size_t chunk) {
              const HandOver::Chunk scope(hand_over);
              body(chunk);
            },
            tbb::simple_partitioner());
      });
    });
  }

 private:
  /// Without this setting, TBB starts no more workers than there are cores, whatever the arena
  /// requests.
  tbb::global_control limit_;
  tbb::task_arena arena_;
};

}  // namespace

std::unique_ptr<Executor> make_executor(int threads) {
  if (threads < 1)
    throw ConfigError("the number of threads is " + std::to_string(threads) +
                      ", allowed is [1, inf)");
  return std::make_unique<TbbExecutor>(threads);
}

int available_threads() { return std::max(1, tbb::info::default_concurrency()); }

}  // namespace privgrad::core
