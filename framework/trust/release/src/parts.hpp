// Splits a vector into parts for the executor, and prefetches memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

#include "privgrad/executor.hpp"
#include "privgrad/trust/noise_words.hpp"

namespace privgrad::core {

/// Calls body(begin, end) for pieces of [0, size), each except the last a whole number of noise
/// chunks.
inline void for_each_part(std::size_t size, Executor& executor,
                          const std::function<void(std::size_t, std::size_t)>& body) {
  constexpr std::size_t kPart = 32 * kNormalsPerChunk;
  executor.for_each_chunk((size + kPart - 1) / kPart, [&](std::size_t part) {
    body(part * kPart, std::min(size, (part + 1) * kPart));
  });
}

/// Prefetches memory into the cache while something else is computed.
template <class T>
void fetch(const T* values, std::size_t size) {
  constexpr std::size_t kLine = 64 / sizeof(T);
  for (std::size_t i = 0; i < size; i += kLine) __builtin_prefetch(values + i, 1);
}

}  // namespace privgrad::core
