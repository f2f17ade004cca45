#include "device_noise.hpp"

#include <bit>
#include <cmath>
#include <string>

#include "launch.hpp"
#include "privgrad/error.hpp"

namespace privgrad::cuda {
namespace {

// Constants of the trust base's float tier (rounded_gaussian_tiers.hpp explains them).
constexpr double kRadiusSlope = 2.0;
constexpr double kRadiusOffset = 0.72;
constexpr double kAngleError = 1.74;
constexpr int kLargestSizeOfFloats = 14;

/// Returns the product in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1.
std::uint8_t multiply(std::uint8_t a, std::uint8_t b) {
  unsigned product = 0;
  for (unsigned x = a, y = b; y != 0; y >>= 1) {
    if ((y & 1) != 0) product ^= x;
    x = (x << 1) ^ ((x & 0x80) != 0 ? 0x11b : 0);
  }
  return static_cast<std::uint8_t>(product);
}

/// Returns the affine map of FIPS 197, applied to the inverse x^254.
std::uint8_t s_box(std::uint8_t x) {
  std::uint8_t inverse = 1;
  for (int i = 0; i < 254; ++i) inverse = multiply(inverse, x);
  if (x == 0) inverse = 0;
  std::uint8_t y = 0x63;
  for (int i = 0; i < 5; ++i) y ^= std::rotl(inverse, i);
  return y;
}

}  // namespace

std::array<std::uint32_t, kAesTable> make_aes_table() {
  std::array<std::uint32_t, kAesTable> table{};
  for (std::uint32_t x = 0; x < kAesTable; ++x) {
    const std::uint8_t s = s_box(static_cast<std::uint8_t>(x));
    table[x] = std::uint32_t{multiply(s, 2)} << 24 | std::uint32_t{s} << 16 |
               std::uint32_t{s} << 8 | std::uint32_t{multiply(s, 3)};
  }
  return table;
}

AesKeys expand_aes_key(std::span<const std::uint8_t, 16> key) {
  AesKeys keys{};
  for (std::size_t i = 0; i < 4; ++i) {
    keys.words[i] = std::uint32_t{key[4 * i]} << 24 | std::uint32_t{key[4 * i + 1]} << 16 |
                    std::uint32_t{key[4 * i + 2]} << 8 | std::uint32_t{key[4 * i + 3]};
  }
  std::uint8_t constant = 1;
  for (std::size_t i = 4; i < 44; ++i) {
    std::uint32_t word = keys.words[i - 1];
    if (i % 4 == 0) {
      const std::uint32_t turned = std::rotl(word, 8);
      word = std::uint32_t{constant} << 24;
      for (int shift = 0; shift < 32; shift += 8) {
        word ^= std::uint32_t{s_box(static_cast<std::uint8_t>(turned >> shift))} << shift;
      }
      constant = multiply(constant, 2);
    }
    keys.words[i] = keys.words[i - 4] ^ word;
  }
  return keys;
}

NoiseScale make_noise_scale(double sigma, unsigned shift, NoiseTier first) {
  if (!(sigma >= 0x1p-64 && sigma <= 0x1p60) || shift > 62) {
    throw ConfigError("backend cuda: noise of " + std::to_string(sigma) + " cells with the shift " +
                      std::to_string(shift) +
                      " was requested; allowed are 2^-64 to 2^60 cells and shifts from 0 to 62");
  }
  NoiseScale scale{};
  scale.coarse_sigma = std::ldexp(sigma, -static_cast<int>(shift));
  scale.shift = shift;
  scale.size = std::ilogb(scale.coarse_sigma) + 1;
  scale.first =
      first == NoiseTier::floats && scale.size > kLargestSizeOfFloats ? NoiseTier::doubles : first;
  // Above this size no tier decides any element.
  if (scale.size > kLargestNoiseSize) scale.first = NoiseTier::wide;
  if (scale.first != NoiseTier::floats) return scale;
  constexpr int kMostBits = 24;
  scale.bits = std::min(kMostBits, 27 - scale.size);
  const double unit_sigma = std::ldexp(scale.coarse_sigma, scale.bits);
  constexpr double kSlack = 1.0 + 0x1p-10;
  constexpr double kSlope = kRadiusSlope + kAngleError + 3.0;
  scale.factor = static_cast<float>(unit_sigma);
  scale.slope = static_cast<float>(unit_sigma * 0x1p-24 * kSlope * kSlack);
  scale.offset = static_cast<float>(unit_sigma * 0x1p-24 * kRadiusOffset * kSlack + 3.0);
  return scale;
}

DeviceNoise::DeviceNoise(const std::shared_ptr<Device>& device) : table_(device, kAesTable) {
  const auto table = make_aes_table();
  device->make_queue()->copy_in(table_.data(), table.data(), sizeof table);
}

void DeviceNoise::release(Queue& queue, std::span<const std::uint8_t, 16> key,
                          const NoiseScale& scale, std::uint64_t first_chunk,
                          const std::int64_t* sums, std::int64_t* out, std::size_t count,
                          std::uint8_t* open) const {
  const std::uint64_t chunks = (count + RoundedNoise::kChunk - 1) / RoundedNoise::kChunk;
  launch(queue, RoundedNoise{chunks, first_chunk, count, scale, expand_aes_key(key), table_.data(),
                             sums, out, open});
}

}  // namespace privgrad::cuda
