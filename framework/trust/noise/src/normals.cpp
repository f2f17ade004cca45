#include "privgrad/trust/normals.hpp"

#include <algorithm>
#include <array>

#include "privgrad/trust/noise_words.hpp"

namespace privgrad::core {
namespace {

constexpr double kSteps = 0x1p24;  // steps per standard deviation

}  // namespace

NormalStream::NormalStream(const RandomKey& key, std::uint64_t stream)
    : stream_(key.derive("floating point"), stream) {}

void NormalStream::fill(std::uint64_t first, std::span<float> out) {
  constexpr std::array<std::int64_t, kNormalsPerChunk> kNothing{};
  std::array<std::int64_t, kNormalsPerChunk> steps;
  while (!out.empty()) {
    const std::size_t size =
        std::min<std::size_t>(out.size(), kNormalsPerChunk - first % kNormalsPerChunk);
    stream_.release(first, kSteps, 0, std::span(kNothing).first(size),
                    std::span(steps).first(size));
    for (std::size_t i = 0; i < size; ++i)
      out[i] = static_cast<float>(static_cast<double>(steps[i]) / kSteps);
    first += size;
    out = out.subspan(size);
  }
}

}  // namespace privgrad::core
