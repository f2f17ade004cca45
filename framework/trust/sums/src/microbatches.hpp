// Cuts a batch into the passes of a program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "privgrad/trust/exact_sum.hpp"

namespace privgrad::core {

/// Calls body(rows, memory) for consecutive parts of a batch, each with as many rows as fit in a
/// pass. memory.pass is large enough for them.
/// \param most_rows  the most rows of a pass; 0: the number that the program prefers.
void for_each_pass(const ExactClipping& program, std::span<const std::uint32_t> batch,
                   std::size_t most_rows, SumMemory& memory,
                   const std::function<void(std::span<const std::uint32_t>, SumMemory&)>& body);

/// Copies these rows to memory.features and memory.targets.
Batch gather(const Dataset& data, std::span<const std::uint32_t> rows, Executor& executor,
             SumMemory& memory);

/// Combines for_each_pass() and gather(): calls body(examples, memory).
void for_each_microbatch(const ExactClipping& program, const Dataset& data,
                         std::span<const std::uint32_t> batch, Executor& executor,
                         std::size_t most_rows, SumMemory& memory,
                         const std::function<void(const Batch&, SumMemory&)>& body);

/// Returns the first `size` elements of this memory, which is enlarged if it is too small.
template <class T>
std::span<T> resized(std::vector<T>& memory, std::size_t size) {
  if (memory.size() < size) memory.resize(size);
  return std::span(memory).first(size);
}

}  // namespace privgrad::core
