// The random bytes of all noise: AES-128 in counter mode, addressed by domain and block.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// Generates the random bytes of the noise: AES-128 in counter mode under the first half of a key.
/// (AES-256 would take a third more time without a practical gain: 2^128 keys cannot be searched,
/// and neither can 2^98, which suffice to break one of a long run's 2^30 streams.)
///
/// Block b of domain d is AES-128(key, d || b), with both numbers big-endian: 2^64 domains of 2^64
/// blocks of 16 bytes, all from different inputs. Without the key, a block therefore reveals
/// nothing about another, except that a permutation is not quite a random function; the difference
/// is at most n^2 / 2^129 for n blocks, which is 2^-58 for the noise of a vector of 10^11 numbers.
/// Blocks are computed by the processor's AES instructions where it has them
/// (aes_instructions.hpp), and otherwise by OpenSSL, which takes constant time on processors with
/// SSSE3. The bytes are the same everywhere.
///
/// Threads: one object must not be shared.
class CounterCipher {
 public:
  static constexpr std::size_t kBlockBytes = 16;

  enum class Use { fastest = 1, openssl };

  /// \param use  `openssl` selects the code for processors without AES instructions, for
  ///   comparison.
  /// \throws NumericError if OpenSSL is used and fails.
  explicit CounterCipher(const RandomKey& key, Use use = Use::fastest);
  CounterCipher(CounterCipher&&) noexcept;
  CounterCipher& operator=(CounterCipher&&) noexcept;
  ~CounterCipher();

  /// Fills `out` with the bytes [16 * block, ...) of a domain. The same address always holds the
  /// same bytes. A read that begins at the block at which the last read ended is a little faster.
  void read(std::uint64_t domain, std::uint64_t block, std::span<std::uint8_t> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace privgrad::core
