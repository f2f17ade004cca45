// Numbers as bytes in files and hashes: little-endian.
#pragma once

#include <bit>
#include <span>
#include <string_view>

namespace privgrad::core {

static_assert(std::endian::native == std::endian::little, "files and hashes are little-endian");

/// \param numbers  a span or a vector; outlives the result.
std::string_view bytes_of(const auto& numbers) {
  const std::span all(numbers);
  return {reinterpret_cast<const char*>(all.data()), all.size_bytes()};
}

}  // namespace privgrad::core
