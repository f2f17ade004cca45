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

/// 32 secret bytes, and the tree of keys that grows from them.
class RandomKey {
 public:
  /// From the operating system's generator: for anything that is to be released.
  static RandomKey from_operating_system();

  /// From a number that is written in the manifest: whoever reads it can subtract the noise again.
  /// For research only; outputs are marked.
  static RandomKey from_seed(std::uint64_t seed);

  /// A key that everybody may know, for random numbers that are no secret.
  /// \throws ConfigError unless it is 64 lower-case hex digits.
  static RandomKey from_public_hex(std::string_view hex);
  /// The key as the text that from_public_hex() reads: whoever has it can draw all that it draws.
  std::string public_hex() const;

  /// The key's bytes, only for the private folder of a run, and the key made from them again.
  std::span<const std::uint8_t, 32> secret_bytes() const noexcept { return bytes_; }
  static RandomKey from_secret_bytes(std::span<const std::uint8_t, 32> bytes);

  /// A key for one purpose ("noise", "sampler", "model/initialise"); knowing it tells nothing about
  /// this key or about another purpose's (BLAKE2b keyed with this key).
  RandomKey derive(std::string_view purpose) const;

  /// Fills `out` from ChaCha20 under this key: bytes [64 * block, ...) of stream `stream`. The same
  /// address always holds the same bytes, whatever was read before it.
  void fill_bytes(std::uint64_t stream, std::uint64_t block, std::span<std::uint8_t> out) const;

 private:
  friend class CounterCipher;
  explicit RandomKey(std::array<std::uint8_t, 32> bytes) : bytes_(bytes) {}
  std::array<std::uint8_t, 32> bytes_;
};

/// A number that nobody can foresee, of the operating system's generator: for places where plugins are
/// looked at, on which no result depends.
/// \param below  in [1, 2^32).
std::size_t unforeseen(std::size_t below);

/// The streams of one component, as the SDK promises them.
std::unique_ptr<RandomSource> make_random_source(const RandomKey& key);

}  // namespace privgrad::core
