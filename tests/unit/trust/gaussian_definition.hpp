// The definition of rounded Gaussian noise, implemented independently of the library, and inputs
// for its tests.
#pragma once

#include <mpfr.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "privgrad/trust/rounded_gaussian_tiers.hpp"
#include "support.hpp"
#include "trust_support.hpp"

namespace privgrad {

using Cells = std::vector<std::int64_t>;

/// Returns 64-bit words of all sizes and signs, including the ends of the range.
inline Cells mixed_sums(std::size_t count, std::uint64_t seed) {
  Cells sums(count);
  core::CounterCipher(core::RandomKey::from_seed(seed))
      .read(9, 0, {reinterpret_cast<std::uint8_t*>(sums.data()), count * sizeof sums[0]});
  for (std::size_t i = 0; i < count; ++i) sums[i] = sums[i] >> (i % 64);
  for (std::size_t i = 0; i + 4 < count; i += 97) {
    sums[i] = std::numeric_limits<std::int64_t>::max();
    sums[i + 1] = std::numeric_limits<std::int64_t>::min();
    sums[i + 2] = 0;
    sums[i + 3] = -1;
  }
  return sums;
}

/// The definition in rounded_gaussian.hpp, implemented independently of the library: from the
/// cipher's bits, 32 and 29, and 320 further bits for each, in MPFR with 800 bits, rounded to
/// nearest at each step. Correct if (sum + Z) / 2^shift is farther than sigma 2^-300 from all
/// half-integers, which is always the case.
class Definition {
 public:
  Definition(const core::RandomKey& key, std::uint64_t stream) : Definition({key, stream, 1}) {}

  /// Noise with several terms, from the streams first, first + 1, ... of a key.
  struct Streams {
    const core::RandomKey& key;
    std::uint64_t first;
    std::size_t count;
  };
  explicit Definition(const Streams& streams) {
    for (std::size_t j = 0; j < streams.count; ++j)
      ciphers_.emplace_back(
          streams.key.derive("rounded normals " + std::to_string(streams.first + j)));
    for (mpfr_ptr x : {&sum_, &u_, &v_, &pi_}) mpfr_init2(x, kPrecision);
    mpfr_const_pi(&pi_, MPFR_RNDN);
  }
  Definition(const Definition&) = delete;
  Definition& operator=(const Definition&) = delete;
  ~Definition() {
    for (mpfr_ptr x : {&sum_, &u_, &v_, &pi_}) mpfr_clear(x);
    mpfr_free_cache();
  }

  std::int64_t rounded(std::uint64_t element, double sigma, unsigned shift, std::int64_t sum) {
    return rounded(element, std::span(&sigma, 1), shift, sum);
  }

  std::int64_t rounded(std::uint64_t element, std::span<const double> sigmas, unsigned shift,
                       std::int64_t sum) {
    const std::uint64_t chunk = element / core::kNormalsPerChunk;
    const std::size_t i = element % kPairs;
    mpfr_set_si(&sum_, sum, MPFR_RNDN);
    for (std::size_t j = 0; j < sigmas.size(); ++j) {
      core::NormalWords words;
      ciphers_[j].read(0, chunk * 256, {reinterpret_cast<std::uint8_t*>(&words), sizeof words});
      add({chunk * kPairs + i, words.radius[i], words.angle[i],
           element % core::kNormalsPerChunk >= kPairs},
          sigmas[j], ciphers_[j]);
    }
    return rounded(shift);
  }

  /// Rounds an element with one term. The pair's number selects its further bits.
  std::int64_t rounded(const core::RoundingAddress& address, double sigma, unsigned shift,
                       std::int64_t sum) {
    mpfr_set_si(&sum_, sum, MPFR_RNDN);
    add(address, sigma, ciphers_[0]);
    return rounded(shift);
  }

 private:
  static constexpr mpfr_prec_t kPrecision = 800;
  static constexpr int kExtensions = 5;
  static constexpr std::size_t kPairs = core::NormalWords::kPairs;

  /// Rounds sum_, modulo 2^64.
  std::int64_t rounded(unsigned shift) {
    mpfr_div_2ui(&sum_, &sum_, shift, MPFR_RNDN);
    mpz_t whole;
    mpz_init(whole);
    mpfr_get_z(whole, &sum_, MPFR_RNDN);
    mpz_fdiv_r_2exp(whole, whole, 64);
    const std::uint64_t k = mpz_get_ui(whole);
    mpz_clear(whole);
    return static_cast<std::int64_t>(k);
  }

  /// Adds sigma zeta to sum_.
  void add(const core::RoundingAddress& address, double sigma, core::CounterCipher& cipher) {
    set_zeta(address, cipher);
    mpfr_mul_d(&u_, &u_, sigma, MPFR_RNDN);
    mpfr_add(&sum_, &sum_, &u_, MPFR_RNDN);
  }

  /// x = (whole + the further bits' fraction) 2^-bits.
  void set(mpfr_ptr x, std::uint32_t whole, int bits, std::uint64_t pair, int half,
           core::CounterCipher& cipher) {
    mpfr_set_d(x, 0.5, MPFR_RNDN);
    for (int j = kExtensions; j > 0; --j) {
      std::array<std::uint64_t, 2> more{};
      cipher.read(static_cast<std::uint64_t>(j), pair,
                  {reinterpret_cast<std::uint8_t*>(more.data()), sizeof more});
      mpfr_add_ui(x, x, more[static_cast<std::size_t>(half)], MPFR_RNDN);
      mpfr_div_2ui(x, x, 64, MPFR_RNDN);
    }
    mpfr_add_ui(x, x, whole, MPFR_RNDN);
    mpfr_div_2ui(x, x, static_cast<unsigned long>(bits), MPFR_RNDN);
  }

  /// Sets zeta; the result is in u_.
  void set_zeta(const core::RoundingAddress& address, core::CounterCipher& cipher) {
    set(&u_, address.radius, 32, address.pair, 0, cipher);
    mpfr_log(&u_, &u_, MPFR_RNDN);
    mpfr_mul_si(&u_, &u_, -2, MPFR_RNDN);
    mpfr_sqrt(&u_, &u_, MPFR_RNDN);
    set(&v_, address.angle & 0x1fffffff, 29, address.pair, 1, cipher);
    mpfr_mul(&v_, &v_, &pi_, MPFR_RNDN);
    mpfr_div_2ui(&v_, &v_, 2, MPFR_RNDN);
    const bool exchanged = (address.angle & 0x20000000) != 0;
    (address.sine == exchanged ? mpfr_cos : mpfr_sin)(&v_, &v_, MPFR_RNDN);
    mpfr_mul(&u_, &u_, &v_, MPFR_RNDN);
    const std::uint32_t sign = address.sine ? 0x40000000 : 0x80000000;
    if ((address.angle & sign) != 0) mpfr_neg(&u_, &u_, MPFR_RNDN);
  }

  std::vector<core::CounterCipher> ciphers_;
  __mpfr_struct sum_, u_, v_, pi_;
};

inline std::size_t differences(const Cells& a, const Cells& b) {
  REQUIRE(a.size() == b.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i];
  return count;
}

/// Returns words that are random, all zeros, all ones, or next to the limits beyond which the first
/// tiers leave elements undecided.
inline std::vector<core::NormalWords> many_words(std::uint64_t random) {
  core::NormalWords zeros{}, ones, edges = random_words(1000);
  std::memset(&ones, 0xff, sizeof ones);
  for (std::size_t i = 0; i < core::NormalWords::kPairs; ++i) {
    constexpr std::array<std::uint32_t, 4> kEdges{1u << 20, 1u << 31, 0u - (1u << 14), 0};
    edges.radius[i] = kEdges[i % 4] + static_cast<std::uint32_t>(i / 4) - 64;
    if (i % 3 == 0) edges.angle[i] |= 0x1fffff00;
  }
  std::vector<core::NormalWords> all{zeros, ones, edges};
  for (std::uint64_t seed = 0; seed < random; ++seed) all.push_back(random_words(seed));
  return all;
}

}  // namespace privgrad
