// Exact Gaussian noise: a sum and its noise rounded together, as if with infinite precision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

struct RoundingWay;  // see rounded_gaussian_tiers.hpp

/// The range of sigma, in fine cells.
inline constexpr double kSmallestRoundedSigma = 0x1p-64;
inline constexpr double kLargestRoundedSigma = 0x1p60;

/// The most terms in the noise of one release.
inline constexpr std::size_t kMostNoiseTerms = 16;

/// The largest shift: coarse cells are at most 2^62 fine ones.
inline constexpr unsigned kLargestReleaseShift = 62;

/// One stream of exact noise: Z_i = sigma zeta_i in cells of a public grid, with zeta_i standard
/// normal, and round(s_i + Z_i) as if all of it had been computed with infinite precision.
///
/// Definition. Elements come in chunks of 1024, and pair i < 512 of a chunk makes the elements i
/// and 512 + i. A pair has two infinite strings of bits: one is U in [0, 1), the other three bits
/// and then V in [0, 1). With r = sqrt(-2 ln U), zeta is r cos(pi V / 4) and r sin(pi V / 4),
/// exchanged if the third bit is set; the first and second bit are their signs. They are the
/// coordinates of the point at distance r and angle pi V / 4 in one of eight octants (Box and
/// Muller 1958). The strings are read from AES-128 in counter mode (CounterCipher) under the
/// stream's own key: their first 32 + 32 bits are words of domain 0 (NormalWords), and each further
/// 64 + 64 bits are the block, numbered like the pair, of domain 1, 2, and so on, read until the
/// rounding is decided (rounded_gaussian_tiers.hpp). With probability 1, s + Z is not halfway
/// between two cells, so finitely many bits decide every element.
///
/// Why that is the Gaussian mechanism:
/// (a) If the bits were ideal, independent and uniform, U and V would be exactly uniform, and all
///     zeta_i independent and exactly standard normal. No bit is left out, and nothing is rounded
///     before the last step, so Z_i is exactly the continuous N(0, sigma^2).
/// (b) For a sum s of whole cells, out is a function of s + Z: round((s + Z) / 2^shift), which for
///     shift 0 is s + round(Z). So a release is the continuous Gaussian mechanism with
///     post-processing, and costs exactly the same under every accountant; no theory of discrete
///     Gaussians is needed. The code evaluates the same function in another order: for
///     s = n 2^shift + remainder, out = n + round((remainder + Z) / 2^shift). The result is taken
///     modulo 2^64 if it leaves the 64-bit range, and is still a function of s + Z.
/// (c) AES makes the guarantee computational: only someone who can distinguish its output from
///     ideal bits (see CounterCipher) could learn more than the guarantee allows.
/// (d) The time that a release takes depends on its values (about one element in a thousand needs a
///     slower tier, which takes ten to a thousand times as long), as for discrete noise: anyone who
///     can measure the time learns something about the noise that is not accounted for.
///
/// A key fixes element i of stream s for a given sigma, shift and sum: ranges, threads, order and
/// instruction sets change nothing. Releases of one stream with a different sigma, shift or sum
/// share zeta_i, so each stream serves one release.
///
/// Several terms. An object made from the keys of b streams releases round(s_i + Z_i), where Z_i is
/// the sum of sigma_j zeta_j,i and zeta_j,i is element i of stream j. Z_i is again a real number
/// that is rounded once, so (a) to (d) hold with "the continuous N(0, sum of sigma_j^2)" in (a).
/// For many releases of the same streams, they hold with the continuous joint distribution of their
/// noise.
///
/// Threads: one object must not be shared; make one per task, which costs 2 microseconds.
class RoundedGaussianStream {
 public:
  RoundedGaussianStream(const RandomKey& key, std::uint64_t stream);
  /// Returns the key from which only this stream's bits are drawn: this key reveals no other
  /// stream. Its first half is the cipher's key.
  static RandomKey own_key(const RandomKey& key, std::uint64_t stream);
  /// Returns the stream whose own_key() is `own_key`.
  static RoundedGaussianStream of_own_key(const RandomKey& own_key);
  /// Makes noise of several terms, from the streams with these keys, in this order.
  /// \param own_keys  1 to 16 keys, no two with the same first half.
  /// \throws ConfigError for other keys.
  static RoundedGaussianStream of_own_keys(std::span<const RandomKey> own_keys);

  /// Makes a stream that computes the same numbers in another way, for tests and measurements.
  RoundedGaussianStream(const RandomKey& key, std::uint64_t stream, const RoundingWay& way);
  static RoundedGaussianStream of_own_keys(std::span<const RandomKey> own_keys,
                                           const RoundingWay& way);
  RoundedGaussianStream(RoundedGaussianStream&&) noexcept;
  RoundedGaussianStream& operator=(RoundedGaussianStream&&) noexcept;
  ~RoundedGaussianStream();

  /// out[i] = round((sums[i] + sigma zeta(first + i)) / 2^shift), modulo 2^64.
  /// \param first  below 2^64 - sums.size(). Ranges that begin and end at multiples of 1024 waste
  ///   no part of a chunk.
  /// \param sigma  in fine cells, in [2^-64, 2^60], used as exactly this double. Fastest where
  ///   sigma / 2^shift is at most 2^12: ten times slower at 2^30, and from 2^43 on each element
  ///   takes 10 microseconds.
  /// \param shift  in [0, 62]: coarse cells are 2^shift fine ones.
  /// \param sums  in fine cells, any 64-bit integers.
  /// \param out  in coarse cells, as many as sums; either the memory of `sums` or disjoint from it.
  /// \throws ConfigError for an argument out of range, before anything is written.
  /// \throws NumericError if OpenSSL is used and fails.
  void release(std::uint64_t first, double sigma, unsigned shift,
               std::span<const std::int64_t> sums, std::span<std::int64_t> out);
  /// out[i] = round((sums[i] + sum_j sigmas[j] zeta_j(first + i)) / 2^shift), modulo 2^64;
  /// otherwise like release() above.
  /// \param sigmas  one per stream: the first in [2^-64, 2^60], each other one 0 or of a
  ///   magnitude in this range; a stream with sigma 0 is not drawn. Fastest where the sum of
  ///   |sigmas[j]| / 2^shift is at most 2^12; from 2^17 on each term takes 50 nanoseconds.
  void release(std::uint64_t first, std::span<const double> sigmas, unsigned shift,
               std::span<const std::int64_t> sums, std::span<std::int64_t> out);

  /// The number of elements made so far, and how many of them reached each of the last two tiers.
  struct Counts {
    std::uint64_t elements = 0;
    std::uint64_t fine = 0;
    std::uint64_t exact = 0;
  };
  const Counts& counts() const;

 private:
  class State;
  explicit RoundedGaussianStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Returns the shift with which releasing noise of standard deviation sigma is fast: 0 for a sigma
/// below 2^11, otherwise the shift for which sigma / 2^shift is in [2^9, 2^10). Coarse rounding
/// adds at most 1/12 of a squared coarse cell, less than 2^-20 of the noise's variance.
/// \param sigma  the same as in release().
/// \throws ConfigError for a sigma outside its range.
unsigned release_shift(double sigma);

}  // namespace privgrad::core
