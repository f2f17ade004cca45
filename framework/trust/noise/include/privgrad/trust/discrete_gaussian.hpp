// Exact samples of the discrete Gaussian, and the privacy cost of releases with such noise
// (Canonne, Kamath and Steinke 2020).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "privgrad/event.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/trust/counter_cipher.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// Uniform random words, as many as needed, from one domain of a cipher at a time.
class RandomWords {
 public:
  explicit RandomWords(const RandomKey& key) : cipher_(key) {}

  /// Moves to the first word of a domain.
  void start(std::uint64_t domain) {
    domain_ = domain;
    block_ = 0;
    used_ = kWords;
  }

  std::uint64_t next() {
    if (used_ == kWords) refill();
    return words_[used_++];
  }

  /// Uniform on {0, ..., bound - 1}, exactly (Lemire 2019, Algorithm 5).
  /// \param bound  > 0.
  std::uint64_t below(std::uint64_t bound) {
    Wide product = Wide{next()} * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
      const std::uint64_t surplus = (0 - bound) % bound;
      while (static_cast<std::uint64_t>(product) < surplus) product = Wide{next()} * bound;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr std::size_t kWords = 512;

  void refill();

  CounterCipher cipher_;
  std::uint64_t domain_ = 0;
  std::uint64_t block_ = 0;
  std::array<std::uint64_t, kWords> words_{};
  std::size_t used_ = kWords;
};

/// The number of elements that share one sequence of random words.
inline constexpr std::size_t kDiscreteChunk = 1024;

/// The largest sigma: 512 sigma is then at most 2^61.
inline constexpr std::uint64_t kLargestDiscreteSigma = std::uint64_t{1} << 52;

/// One stream of the core's discrete Gaussian noise: independent integers x with probability
/// proportional to exp(-x^2 / (2 sigma^2)).
///
/// Canonne, Kamath and Steinke 2020 ("The Discrete Gaussian for Differential Privacy"), Algorithms
/// 1 to 3, with sigma a whole number of cells, and the scale t of the discrete Laplace proposals
/// equal to sigma. (They take t = floor(sigma) + 1; their proof holds for every whole t > 0, and
/// with t = sigma all fractions have the denominator sigma.) No floating point is involved, only
/// comparisons of exactly uniform integers. Samples are exact, except that values of 512 sigma and
/// more, whose probability is below exp(-2^17), are redrawn.
///
/// Each chunk of 1024 elements has its own domain under the stream's AES-128 key, so the key fixes
/// every element: threads and resumed runs neither repeat nor skip a draw, on any processor.
///
/// Timing: rejection sampling makes the time of a draw depend on its value. Threads: one object
/// must not be shared.
class DiscreteGaussianStream {
 public:
  /// \param sigma  in [1, kLargestDiscreteSigma].
  /// \throws ConfigError for a sigma outside this range.
  DiscreteGaussianStream(const RandomKey& key, std::uint64_t stream, std::uint64_t sigma);

  /// Fills `out` with the elements 1024 chunk, 1024 chunk + 1, ...; at most 1024 of them.
  void fill(std::uint64_t chunk, std::span<std::int64_t> out);

 private:
  std::int64_t draw();

  RandomWords words_;
  std::uint64_t sigma_;
};

/// Returns the privacy event of releasing a vector of integers, with this stream's noise on every
/// coordinate, if no unit's contribution is longer than `levels`: zcdp(rho), with rho rounded up.
///
/// Proof (Canonne, Kamath and Steinke 2020, Theorem 4, coordinate by coordinate): neighbours' sums
/// differ by an integer vector v with ||v|| <= Delta = s levels, where s is
/// sensitivity_of_unit_bound(adjacency). For one coordinate, with P and Q the noise around v_i and
/// around 0, completing the square gives
///
///     sum_x P(x)^a Q(x)^(1-a) = exp(a (a - 1) v_i^2 / (2 sigma^2)) theta(a v_i) / theta(0),
///
/// where theta(c) = sum_x exp(-(x - c)^2 / (2 sigma^2)) over the integers is largest at c = 0
/// (Poisson summation: its Fourier coefficients are positive). So the Renyi divergence of order a
/// is at most a v_i^2 / (2 sigma^2). Over independent coordinates divergences add, and because
/// ||v||^2 <= Delta^2 the release is rho-zCDP with rho = Delta^2 / (2 sigma^2).
///
/// The event is not `discrete_gaussian(sigma, Delta)`, which describes the release of one
/// coordinate. The privacy loss of a vector has a different distribution, so accountants that use
/// loss distributions would compute a wrong cost.
/// \param sigma  the noise parameter in cells, > 0.
Event grid_release_event(std::uint64_t levels, std::uint64_t sigma, Adjacency adjacency);

/// \returns the noise parameter in cells: noise_multiplier * levels, rounded up so that the noise
///   is never less than promised.
/// \param noise_multiplier  > 0, finite.
/// \throws ConfigError if the rounded product is above kLargestDiscreteSigma - 1.
std::uint64_t sigma_in_cells(double noise_multiplier, std::uint64_t levels);

}  // namespace privgrad::core
