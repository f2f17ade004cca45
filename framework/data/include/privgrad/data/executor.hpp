// The executor that runs a program's parallel loops on TBB threads.
#pragma once

#include <memory>

#include "privgrad/executor.hpp"

namespace privgrad::core {

/// Makes an executor on its own TBB arena.
/// \param threads  > 0.
std::unique_ptr<Executor> make_executor(int threads);

/// \returns the number of threads available to this process, >= 1.
int available_threads();

}  // namespace privgrad::core
