#include "inputs.hpp"

#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <numbers>
#include <thread>

namespace privgrad::testing {
namespace {

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

constexpr std::uint64_t kStride = 0x9e3779b97f4a7c15u;

}  // namespace

std::uint64_t PublicStream::next() { return mix(counter_ += kStride); }

std::uint64_t PublicStream::uniform_below(std::uint64_t bound) {
  // Draws only from a part of the range whose size `bound` divides, so no value is favoured.
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t limit = most - most % bound;
  std::uint64_t draw = next();
  while (draw >= limit) draw = next();
  return draw % bound;
}

double PublicStream::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

double PublicStream::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

void PublicStream::fill_normal(std::span<float> out) {
  for (float& value : out) value = static_cast<float>(normal());
}

std::unique_ptr<RandomStream> PublicSource::stream(std::uint64_t index) const {
  return std::make_unique<PublicStream>(mix(mix(seed_ + kStride) ^ (index + 1)));
}

std::vector<float> normal_values(std::uint64_t seed, std::size_t count, double scale) {
  PublicStream random(mix(seed));
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(scale * random.normal());
  return values;
}

void SerialExecutor::for_each_chunk(std::size_t chunks,
                                    const std::function<void(std::size_t)>& body) {
  for (std::size_t i = 0; i < chunks; ++i) body(backwards_ ? chunks - 1 - i : i);
}

void TwoThreadExecutor::for_each_chunk(std::size_t chunks,
                                       const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  std::mutex guard;
  std::exception_ptr first_problem;
  const auto work = [&] {
    for (std::size_t i = next++; i < chunks; i = next++) {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(guard);
        if (!first_problem) first_problem = std::current_exception();
      }
    }
  };
  {
    std::jthread other(work);
    work();
  }
  if (first_problem) std::rethrow_exception(first_problem);
}

}  // namespace privgrad::testing
