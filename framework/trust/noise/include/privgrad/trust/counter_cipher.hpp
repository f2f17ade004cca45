// The random bytes of all noise: AES-128 in counter mode, addressed by domain and block.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// The bytes that AES-128 in counter mode makes under a key's first half: where the noise comes
/// from. (256 bits would cost a third more time and protect from nobody: 2^128 keys cannot be
/// tried, nor 2^98 for one of the 2^30 streams of a long run.)
///
/// Block b of domain d is AES-128(key, d || b), both numbers big-endian: 2^64 domains of 2^64
/// blocks of 16 bytes, all different inputs, so no block tells anything about another to whoever
/// lacks the key (up to the distance between a permutation and a function, n^2 / 2^129 for n
/// blocks: 2^-58 for the noise of a vector of 10^11 numbers). The processor's AES instructions
/// compute it (aes_instructions.hpp) where it has them, OpenSSL elsewhere, in constant time from
/// SSSE3 on; the bytes are the same everywhere.
///
/// Threads: one object must not be shared.
class CounterCipher {
 public:
  static constexpr std::size_t kBlockBytes = 16;

  enum class Use { fastest = 1, openssl };

  /// \param use  openssl: what runs where there are no AES instructions, for comparison.
  /// \throws NumericError if OpenSSL is used and does not work.
  explicit CounterCipher(const RandomKey& key, Use use = Use::fastest);
  CounterCipher(CounterCipher&&) noexcept;
  CounterCipher& operator=(CounterCipher&&) noexcept;
  ~CounterCipher();

  /// Fills `out` with the bytes [16 * block, ...) of a domain. The same address always holds the
  /// same bytes. Reading on where the last read ended at a whole block is a little faster.
  void read(std::uint64_t domain, std::uint64_t block, std::span<std::uint8_t> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace privgrad::core
