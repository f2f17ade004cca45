// Draws the rounded Gaussian noise of a release on a device, with the same bits as the trust base.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "device.hpp"
#include "noise.hpp"

namespace privgrad::cuda {

/// Returns the round keys of AES-128.
AesKeys expand_aes_key(std::span<const std::uint8_t, 16> key);

/// Returns the table of the middle rounds, by byte (noise.hpp), from the definition of the S-box.
std::array<std::uint32_t, kAesTable> make_aes_table();

/// \param sigma  in fine cells; in [2^-64, 2^60].
/// \param shift  at most 62, as in the trust base.
/// \param first  the first tier to use, unless it is too coarse for sigma.
/// \throws ConfigError for arguments outside these ranges.
NoiseScale make_noise_scale(double sigma, unsigned shift, NoiseTier first = NoiseTier::floats);

/// The rounded Gaussian on a device: the same releases as core::RoundedGaussianStream, bit by bit.
/// Threads: may be shared.
class DeviceNoise {
 public:
  explicit DeviceNoise(const std::shared_ptr<Device>& device);

  /// out[i] = round((sums[i] + sigma zeta(1024 first_chunk + i)) / 2^shift), modulo 2^64.
  /// \param key  the half of the stream's own key that the cipher uses, which is the first half.
  /// \param sums, out  [count], on the device; they may be the same.
  /// \param open  out, on the device: [ceil(count / 1024)]: 1 for chunks with undecided elements,
  ///   which must be recomputed elsewhere. Fewer than one element in 2^60 is undecided at the
  ///   scales of real releases.
  void release(Queue& queue, std::span<const std::uint8_t, 16> key, const NoiseScale& scale,
               std::uint64_t first_chunk, const std::int64_t* sums, std::int64_t* out,
               std::size_t count, std::uint8_t* open) const;

 private:
  Array<std::uint32_t> table_;
};

}  // namespace privgrad::cuda
