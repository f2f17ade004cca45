// The run's threads, for plugins that divide work into chunks.
#pragma once

#include <cstddef>
#include <functional>

#include "privgrad/export.hpp"

namespace privgrad {

/// Runs pieces of work on the run's threads. The core provides the executor; plugins must not start
/// threads of their own.
class PRIVGRAD_API Executor {
 public:
  virtual ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Calls body(0) .. body(chunks - 1), in any order and possibly at the same time; returns when
  /// all calls are done. Rethrows the first exception. Choose the number of chunks from the
  /// problem, never from the number of threads, so that results are the same on every machine.
  virtual void for_each_chunk(std::size_t chunks, const std::function<void(std::size_t)>& body) = 0;

 protected:
  Executor() = default;
};

}  // namespace privgrad
