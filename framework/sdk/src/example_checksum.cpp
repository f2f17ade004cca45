#include "privgrad/example_checksum.hpp"

#include <bit>
#include <cstddef>

namespace privgrad {
namespace {

std::uint64_t term(std::uint64_t place, float number) {
  std::uint64_t x = place << 32 | std::bit_cast<std::uint32_t>(number);
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace

std::uint64_t example_checksum(std::span<const float> features, float target) {
  std::uint64_t sum = term(features.size(), target);
  for (std::size_t i = 0; i < features.size(); ++i) sum += term(i, features[i]);
  return sum;
}

}  // namespace privgrad
