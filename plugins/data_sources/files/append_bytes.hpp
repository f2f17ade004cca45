// Reads bytes into a vector in chunks, so that a false length cannot exhaust memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Appends up to `count` bytes in chunks, so that memory never grows ahead of the bytes that have
/// arrived.
/// \param read  std::size_t(std::span<std::uint8_t>): reads bytes and returns how many it read,
///   less than requested only at the end of the input.
/// \returns the number of appended bytes; less than `count` only at the end of the input.
template <class Read>
std::uint64_t append_bytes(std::vector<std::uint8_t>& to, std::uint64_t count, const Read& read) {
  constexpr std::uint64_t kChunk = std::uint64_t{1} << 16;
  std::uint64_t done = 0;
  while (done < count) {
    const auto wanted = static_cast<std::size_t>(std::min(count - done, kChunk));
    const std::size_t before = to.size();
    to.resize(before + wanted);
    const std::size_t got = read(std::span(to).subspan(before));
    to.resize(before + got);
    done += got;
    if (got < wanted) break;
  }
  return done;
}
