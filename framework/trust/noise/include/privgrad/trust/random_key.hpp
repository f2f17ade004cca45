// Secret keys, and the keys and random streams derived from them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "privgrad/random.hpp"

namespace privgrad::core {

/// 32 secret bytes, and the keys and streams derived from them.
class RandomKey {
 public:
  /// A key from the operating system's generator: for anything that will be released.
  static RandomKey from_operating_system();

  /// Returns a key from a number in the manifest. Anyone who reads the manifest can subtract the
  /// noise, so this is for research only; outputs are marked.
  static RandomKey from_seed(std::uint64_t seed);

  /// Returns a public key, for random numbers that need no secrecy.
  /// \throws ConfigError unless the text is 64 lower-case hex digits.
  static RandomKey from_public_hex(std::string_view hex);
  /// The key as a text that from_public_hex() reads. The text reveals everything drawn under the
  /// key.
  std::string public_hex() const;

  /// The key's bytes, only for the private folder of a run.
  std::span<const std::uint8_t, 32> secret_bytes() const noexcept { return bytes_; }
  static RandomKey from_secret_bytes(std::span<const std::uint8_t, 32> bytes);

  /// Returns a key for one purpose ("noise", "sampler", "model/initialise"). It reveals nothing
  /// about this key or about the keys of other purposes (BLAKE2b keyed with this key).
  RandomKey derive(std::string_view purpose) const;

  /// Fills `out` from ChaCha20 under this key: bytes [64 * block, ...) of stream `stream`. The same
  /// address always holds the same bytes, whatever was read before it.
  void fill_bytes(std::uint64_t stream, std::uint64_t block, std::span<std::uint8_t> out) const;

 private:
  friend class CounterCipher;
  explicit RandomKey(std::array<std::uint8_t, 32> bytes) : bytes_(bytes) {}
  std::array<std::uint8_t, 32> bytes_;
};

/// Returns an unpredictable number from the operating system's generator, to choose the places at
/// which plugins are checked. No result depends on it.
/// \param below  in [1, 2^32).
std::size_t unforeseen(std::size_t below);

/// Returns the random streams of one component, with the properties that the SDK promises.
std::unique_ptr<RandomSource> make_random_source(const RandomKey& key);

}  // namespace privgrad::core
