// Rounded Gaussian noise with several terms. rounded_gaussian_test.cpp tests noise with one term.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "gaussian_definition.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/trust/rounded_gaussian_tiers.hpp"
#include "privgrad/trust/testing.hpp"
#include "support.hpp"
#include "trials.hpp"

namespace core = privgrad::core;
using core::kNormalsPerChunk;
using core::NormalWords;
using core::RandomKey;
using core::RoundedGaussianStream;
using core::rounding_variants;
using core::RoundingScale;
using core::RoundingTier;
using core::RoundingWay;
using privgrad::Cells;
using privgrad::Definition;
using privgrad::differences;
using privgrad::mixed_sums;

namespace {

using Sigmas = std::vector<double>;

/// Returns the separate keys of the streams 0, 1, ... of a key.
std::vector<RandomKey> keys_of(const RandomKey& key, std::size_t terms) {
  std::vector<RandomKey> keys;
  for (std::size_t j = 0; j < terms; ++j) keys.push_back(RoundedGaussianStream::own_key(key, j));
  return keys;
}

/// Returns the elements first, first + 1, ... of the streams 0, 1, ..., released on these sums.
Cells released_terms(const RandomKey& key, const Sigmas& sigmas, unsigned shift, const Cells& sums,
                     const RoundingWay& way = {}, std::uint64_t first = 0) {
  Cells out(sums.size());
  RoundedGaussianStream::of_own_keys(keys_of(key, sigmas.size()), way)
      .release(first, sigmas, shift, sums, out);
  return out;
}

/// Returns sigmas as in correlated noise: the first is the largest, others have both signs, and one
/// of them is left out if there are enough.
Sigmas sigmas_of(std::size_t terms, double first) {
  Sigmas sigmas{first};
  for (std::size_t j = 1; j < terms; ++j)
    sigmas.push_back(first * (j % 3 == 0 ? 0.71 : -0.87) / static_cast<double>(j));
  if (terms >= 5) sigmas[terms - 2] = 0.0;
  return sigmas;
}

Sigmas equal_sigmas(std::size_t terms, double sum) {
  return Sigmas(terms, sum / static_cast<double>(terms));
}

constexpr std::array<std::size_t, 6> kTerms{1, 2, 3, 5, 8, 16};

/// Whether the float tier decides an element of constructed words differently from what their cells
/// allow.
class FloatTier {
 public:
  explicit FloatTier(std::vector<NormalWords> words) : words_(std::move(words)) {}

  /// Numbers of decided elements, and of wrong ones for some values of the further bits.
  struct Found {
    int decided = 0;
    int wrong = 0;
  };
  Found look(const RoundingScale& scale, std::int64_t sum) const {
    const auto& variant = rounding_variants().front();
    core::FloatSums added{};
    for (std::size_t j = 0; j < scale.terms; ++j) variant.add_term(words_[j], scale, j, added);
    std::array<std::int64_t, kNormalsPerChunk> sums;
    sums.fill(sum);
    core::RoundedChunk rounded;
    variant.round_terms(added, scale, sums, rounded);
    Found found;
    for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
      for (const bool sine : {false, true}) {
        if ((rounded.undecided[i] & (sine ? 2u : 1u)) != 0) continue;
        ++found.decided;
        found.wrong += wrong(i, sine, scale, sum, rounded.k[sine ? NormalWords::kPairs + i : i]);
      }
    }
    return found;
  }

 private:
  /// Checks the corners of the cells: all further bits 0, or all 1, of radii and of angles.
  bool wrong(std::size_t i, bool sine, const RoundingScale& scale, std::int64_t sum,
             std::int32_t k) const {
    std::vector<core::RoundingAddress> terms;
    for (std::size_t j = 0; j < scale.terms; ++j)
      terms.push_back({i, words_[j].radius[i], words_[j].angle[i], sine});
    const auto remainder =
        static_cast<std::uint64_t>(sum) & ((std::uint64_t{1} << scale.shift) - 1);
    for (const unsigned corner : {0u, 1u, 2u, 3u}) {
      const std::vector<core::RoundingBits> bits(
          scale.terms, {0 - std::uint64_t{corner & 1}, 0 - std::uint64_t{corner >> 1}});
      const auto expected = rounding_variants().front().fine(terms, scale, remainder, bits);
      if (expected && *expected != k) return true;
    }
    return false;
  }

  std::vector<NormalWords> words_;
};

}  // namespace

TEST_CASE("rounded terms: each element is that of the definition", "[noise][rounded]") {
  // Independent source: class Definition, 800 bits in MPFR.
  const RandomKey key = RandomKey::from_seed(61);
  constexpr std::size_t kCount = 64;
  std::uint64_t first = 0;
  for (const std::size_t terms : kTerms) {
    Definition definition({key, 0, terms});
    for (const double sigma :
         {0x1p-64, 0.4, 1.0, 300.7, 0x1.3p12, 0x1.1p17, 0x1p26, 0x1p44, 0x1p60}) {
      for (const unsigned shift : {0u, 17u, 40u}) {
        CAPTURE(terms, sigma, shift);
        Sigmas sigmas = sigmas_of(terms, sigma);
        for (double& x : sigmas)
          if (x != 0.0 && std::abs(x) < 0x1p-64) x = std::copysign(0x1p-64, x);
        const Cells sums = mixed_sums(kCount, 50 + first);
        Cells expected(kCount);
        for (std::size_t i = 0; i < kCount; ++i)
          expected[i] = definition.rounded(first + i, sigmas, shift, sums[i]);
        CHECK(differences(released_terms(key, sigmas, shift, sums, {}, first), expected) == 0);
        first += 500;
      }
    }
  }
}

TEST_CASE("rounded terms: all tiers and instruction sets agree", "[noise][rounded][long]") {
  const RandomKey key = RandomKey::from_seed(62);
  const auto chunks = static_cast<std::size_t>(
      trials(10, "thirds of a chunk of noise of several terms by the last tier for each scale"));
  const Cells sums = mixed_sums(chunks * 64 * kNormalsPerChunk, 3);
  const Cells some(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(chunks * 300));
  for (const std::size_t terms : kTerms) {
    for (const double size : {-1.0, 4.0, 9.5, 12.0, 15.5}) {
      for (const unsigned shift : {0u, 17u}) {
        CAPTURE(terms, size, shift);
        const Sigmas sigmas = sigmas_of(terms, std::exp2(size + shift));
        const Cells fine = released_terms(key, sigmas, shift, sums, {RoundingTier::fine});
        for (const auto& variant : rounding_variants()) {
          if (variant.instruction_set == "plain" && terms > 3) continue;  // slow
          INFO(variant.instruction_set);
          CHECK(differences(released_terms(key, sigmas, shift, sums, {{}, &variant}), fine) == 0);
        }
        CHECK(differences(released_terms(key, sigmas, shift, some, {RoundingTier::exact}),
                          Cells(fine.begin(), fine.begin() + std::ssize(some))) == 0);
      }
    }
  }
}

TEST_CASE("rounded terms: next to a half, each element is rounded to its side",
          "[noise][rounded]") {
  // With K = round(Z) of a release in fine cells, the sum half - K + d puts sum + Z at distance d +
  // (Z - K) from a half: above for d >= 1, below for d <= -1. Each element can thus be put as near
  // to a half as desired, with d of at least one fine cell; there, any error missing from a bound
  // leads to the wrong side.
  const RandomKey key = RandomKey::from_seed(69);
  std::uint64_t first = 0;
  for (const std::size_t terms : kTerms) {
    for (const int size : {-8, -2, 3, 9, 12, 15, 30, 42}) {
      const unsigned shift = size > 15 ? 17 : 26;
      const std::size_t count = size > 15 ? 500 : 4096;  // larger ones by the last tier
      CAPTURE(terms, size);
      const Sigmas sigmas = sigmas_of(terms, std::ldexp(1.0, size + static_cast<int>(shift)));
      const Cells noise = released_terms(key, sigmas, 0, Cells(count), {}, first);
      Cells sums(count), expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t distance =
            std::int64_t{2 + static_cast<std::int64_t>(i % 7)} << (i / 2 % (shift - 4)) >> 1;
        const std::int64_t half = std::int64_t{1} << (shift - 1);
        sums[i] = half - noise[i] + (i % 2 == 0 ? distance : -distance);
        expected[i] = i % 2 == 0 ? 1 : 0;
      }
      for (const auto& variant : rounding_variants()) {
        INFO(variant.instruction_set);
        const RoundingWay way{{}, &variant};
        CHECK(differences(released_terms(key, sigmas, shift, sums, way, first), expected) == 0);
      }
      first += 4096;
    }
  }
}

TEST_CASE("rounded terms: the float tier decides what is so for all further bits",
          "[noise][rounded]") {
  // Words for which each pair has one or two radii that releases of one term leave undecided; sums
  // in all positions of a coarse cell. A bound that ignores the width of these cells decides some
  // elements wrongly.
  constexpr unsigned kShift = 8;
  for (const std::size_t terms : {std::size_t{2}, std::size_t{5}, std::size_t{16}}) {
    std::vector<NormalWords> words;
    for (std::size_t j = 0; j < terms; ++j) words.push_back(random_words(2000 + j));
    for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
      words[i % terms].radius[i] = (1u << 12) + static_cast<std::uint32_t>(i * i);
      words[i % 7 % terms].radius[i] = (1u << 12) + static_cast<std::uint32_t>(i);
    }
    const FloatTier tier(words);
    int decided = 0, wrong = 0;
    for (std::int64_t sum = 0; sum < 256; ++sum) {
      for (const double sigma : {40.0, 700.0}) {
        const auto found = tier.look({sigmas_of(terms, std::ldexp(sigma, kShift)), kShift}, sum);
        decided += found.decided;
        wrong += found.wrong;
      }
    }
    CHECK(decided > 256 * 1024);
    CHECK(wrong == 0);
  }
}

TEST_CASE("rounded terms: 16 that all point one way fit the fixed point", "[noise][rounded]") {
  // |Z| = 16 r sigma: a fixed-point scale based on the root of the sum of squares would only have
  // room for 4 r sigma.
  for (const std::uint32_t radius : {1u << 12, 1u << 16, 1u << 20}) {
    for (const std::uint32_t octant : {0u, 1u, 2u, 4u, 6u, 7u}) {
      NormalWords words;
      for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
        words.radius[i] = radius + static_cast<std::uint32_t>(i);
        words.angle[i] = octant << 29 | static_cast<std::uint32_t>(i) * 0x1000;
      }
      const FloatTier tier(std::vector<NormalWords>(16, words));
      for (const double sum : {0.9, 1.0, 1.9, 1000.0, 0x1.fp10, 0x1.fp16}) {
        const auto found = tier.look({equal_sigmas(16, sum), 0}, 0);
        CAPTURE(radius, octant, sum);
        CHECK((found.decided > 0 || sum > 0x1p16));
        CHECK(found.wrong == 0);
      }
    }
  }
}

TEST_CASE("rounded terms: radii without a bound are left alone", "[noise][rounded]") {
  const std::array<std::int64_t, kNormalsPerChunk> sums{};
  for (const std::size_t terms : {std::size_t{2}, std::size_t{16}}) {
    for (const std::uint32_t radius : {0u, 1u, (1u << 12) - 1, 0u - (1u << 14), ~0u}) {
      core::FloatSums added{};
      const RoundingScale scale(sigmas_of(terms, 0.01), 0);
      for (std::size_t j = 0; j < scale.terms; ++j) {
        NormalWords words = random_words(j);
        if (j == 1) words.radius.fill(radius);
        rounding_variants().front().add_term(words, scale, j, added);
      }
      core::RoundedChunk rounded;
      rounding_variants().front().round_terms(added, scale, sums, rounded);
      CHECK(std::ranges::count(rounded.undecided, 3u) == NormalWords::kPairs);
    }
  }
}

TEST_CASE("rounded terms: the float tier passes on what it must, and little more",
          "[noise][rounded]") {
  // Upper limit from the bounds: for each term 2 sigma 2^-24 (6.74 E r + 0.72), E r = 1.2533, and
  // units of 2^-F; plus the pairs without a bound. Coarse words: 2 sigma 2.4e-5 for another 2^-12
  // of them.
  const Cells sums(std::size_t{1} << 19, 0);
  Cells out(sums.size());
  for (const std::size_t terms : {std::size_t{2}, std::size_t{4}, std::size_t{16}}) {
    const Sigmas sigmas = sigmas_of(terms, 0x1p9);
    auto stream = RoundedGaussianStream::of_own_keys(keys_of(RandomKey::from_seed(63), terms));
    stream.release(0, sigmas, 0, sums, out);
    CHECK(stream.counts().elements == sums.size());
    double sum = 0.0;
    for (const double sigma : sigmas) sum += std::abs(sigma);
    const auto count = static_cast<double>(terms);
    const double unit = std::exp2(std::ceil(std::log2(sum)) - 27.0);
    const double share =
        static_cast<double>(stream.counts().fine) / static_cast<double>(sums.size());
    const double arithmetic = 2.0 * sum * 0x1p-24 * (6.74 * 1.2533 + 0.72);
    CHECK(share > sum * 0x1p-24);
    CHECK(share < 1.1 * (arithmetic + 2.0 * unit * (count + 2.0) +
                         count * (0x1p-18 + 0x1p-20 + 0x1p-12 * 2.0 * sigmas[0] * 2.4e-5)));
    CHECK(stream.counts().exact < 4);
  }
}

TEST_CASE("rounded terms: one term, or others of 0, is the stream alone", "[noise][rounded]") {
  const RandomKey key = RandomKey::from_seed(64);
  const Cells sums = mixed_sums(5000, 4);
  for (const double sigma : {0.4, 1000.0, 0x1p26, 0x1p50}) {
    for (const unsigned shift : {0u, 17u}) {
      Cells alone(sums.size());
      RoundedGaussianStream(key, 0).release(77, sigma, shift, sums, alone);
      CAPTURE(sigma, shift);
      CHECK(differences(released_terms(key, {sigma}, shift, sums, {}, 77), alone) == 0);
      CHECK(differences(released_terms(key, {sigma, 0.0, -0.0}, shift, sums, {}, 77), alone) == 0);
    }
  }
}

TEST_CASE("rounded terms: ranges, order and threads change nothing", "[noise][rounded]") {
  const RandomKey key = RandomKey::from_seed(65);
  const Cells sums = mixed_sums(10'000, 8);
  const Sigmas sigmas = sigmas_of(6, 0x1p26);
  const Cells all = released_terms(key, sigmas, 17, sums);
  auto stream = RoundedGaussianStream::of_own_keys(keys_of(key, sigmas.size()));
  Cells other(100);
  bool in_place = false;
  for (const auto& [first, count] : std::initializer_list<std::pair<std::size_t, std::size_t>>{
           {9000, 1000}, {1600, 100}, {1023, 2}, {0, 1}, {2048, 2048}, {5, 9000}}) {
    const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(first);
    Cells part(begin, begin + static_cast<std::ptrdiff_t>(count)), out(count, 77);
    in_place = !in_place;
    stream.release(first, sigmas, 17, part, in_place ? part : out);
    if (in_place) out = part;
    CHECK(std::equal(out.begin(), out.end(), all.begin() + static_cast<std::ptrdiff_t>(first)));
    // Other sigmas leave no state behind.
    stream.release(first, sigmas_of(6, 3.0), 0, other, other);
  }
  for (const int threads : {1, 2}) {
    const auto executor = core::make_executor(threads);
    Cells out(sums.size());
    executor->for_each_chunk(4, [&](std::size_t chunk) {
      RoundedGaussianStream::of_own_keys(keys_of(key, sigmas.size()))
          .release(chunk * 2500, sigmas, 17, std::span(sums).subspan(chunk * 2500, 2500),
                   std::span(out).subspan(chunk * 2500, 2500));
    });
    CHECK(out == all);
  }
}

TEST_CASE("rounded terms: without a sum it is the sum of sigma zeta", "[noise][rounded]") {
  // zeta of each stream separately, in steps of 2^-40. The least-squares estimates of the sigmas of
  // a release in fine cells are within 6 standard errors (of a rounding error), and no element is
  // off by more than a cell.
  constexpr std::size_t kCount = 8192;
  const RandomKey key = RandomKey::from_seed(66);
  for (const std::size_t terms : {std::size_t{2}, std::size_t{3}, std::size_t{8}}) {
    const Sigmas sigmas = sigmas_of(terms, 0x1.5p20);
    const Cells zeros(kCount);
    const Cells sum = released_terms(key, sigmas, 0, zeros);
    std::vector<std::vector<double>> zeta(terms, std::vector<double>(kCount));
    for (std::size_t j = 0; j < terms; ++j) {
      Cells steps(kCount);
      RoundedGaussianStream(key, j).release(0, 0x1p40, 0, zeros, steps);
      for (std::size_t i = 0; i < kCount; ++i)
        zeta[j][i] = std::ldexp(static_cast<double>(steps[i]), -40);
    }
    // The normal equations by elimination: they are close to 8192 times the identity.
    std::vector<std::vector<double>> rows(terms, std::vector<double>(terms + 1));
    for (std::size_t a = 0; a < terms; ++a) {
      for (std::size_t i = 0; i < kCount; ++i) {
        for (std::size_t b = 0; b < terms; ++b) rows[a][b] += zeta[a][i] * zeta[b][i];
        rows[a][terms] += zeta[a][i] * static_cast<double>(sum[i]);
      }
    }
    for (std::size_t a = 0; a < terms; ++a) {
      for (std::size_t b = 0; b < terms; ++b) {
        if (a == b) continue;
        const double factor = rows[b][a] / rows[a][a];
        for (std::size_t c = 0; c <= terms; ++c) rows[b][c] -= factor * rows[a][c];
      }
    }
    double worst = 0.0;
    for (std::size_t j = 0; j < terms; ++j)
      CHECK(std::abs(rows[j][terms] / rows[j][j] - sigmas[j]) < 6.0 * std::sqrt(1.0 / 12 / 8192));
    for (std::size_t i = 0; i < kCount; ++i) {
      double residual = static_cast<double>(sum[i]);
      for (std::size_t j = 0; j < terms; ++j) residual -= rows[j][terms] / rows[j][j] * zeta[j][i];
      worst = std::max(worst, std::abs(residual));
    }
    CHECK(worst < 1.0);
    CHECK(worst > 0.4);  // otherwise nothing was rounded
  }
}

TEST_CASE("rounded terms: a release has the noise of all of its terms", "[noise][rounded]") {
  const RandomKey key = RandomKey::from_seed(67);
  const Sigmas sigmas = sigmas_of(4, 0x1p26);
  Cells sums = mixed_sums(150'000, 12);
  for (std::int64_t& x : sums) x >>= 8;
  constexpr unsigned kShift = 17;
  constexpr std::size_t kFirst = 5000;
  const Cells expected = released_terms(key, sigmas, kShift, sums, {}, kFirst);
  for (const int threads : {1, 2}) {
    const auto executor = core::make_executor(threads);
    const std::vector<float> values =
        core::rounded_for_testing(sums, key, sigmas, kShift, 0.25, kFirst, *executor);
    REQUIRE(values.size() == sums.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      wrong += values[i] != static_cast<float>(static_cast<double>(expected[i]) * 0.25);
    CHECK(wrong == 0);
  }
}

TEST_CASE("rounded terms: what cannot be released is refused, and nothing is written",
          "[noise][rounded]") {
  const RandomKey key = RandomKey::from_seed(68);
  const auto keys = keys_of(key, 17);
  using Stream = RoundedGaussianStream;
  CHECK_THROWS_WITH(Stream::of_own_keys(keys),
                    "rounded Gaussian noise of 17 streams, allowed is 1 to 16");
  CHECK_THROWS_AS(Stream::of_own_keys({}), privgrad::ConfigError);
  std::array same{keys[0], keys[1], keys[0]};
  CHECK_THROWS_WITH(
      Stream::of_own_keys(same),
      "rounded Gaussian noise: terms 0 and 2 have one key, allowed is a key for each");
  auto stream = Stream::of_own_keys(std::span(keys).first(3));
  const Cells sums(3);
  Cells out(3, 77);
  const auto refused = [&](const Sigmas& sigmas, const std::string& text) {
    CHECK_THROWS_WITH(stream.release(0, sigmas, 0, sums, out), text);
  };
  refused({1.0, 1.0}, "rounded Gaussian noise: 2 sigmas for 3 streams, allowed is one for each");
  CHECK_THROWS_AS(stream.release(0, 1.0, 0, sums, out), privgrad::ConfigError);
  CHECK_THROWS_AS(stream.release(0, Sigmas{}, 0, sums, out), privgrad::ConfigError);
  refused({0.0, 1.0, 1.0},
          "rounded Gaussian noise: sigma is 0.000000 cells, allowed is 2^-64 to 2^60");
  refused({-1.0, 1.0, 1.0},
          "rounded Gaussian noise: sigma is -1.000000 cells, allowed is 2^-64 to 2^60");
  const double infinite = std::numeric_limits<double>::infinity();
  refused(
      {1.0, 0.0, infinite},
      "rounded Gaussian noise: sigma of term 2 is inf cells, allowed is 0 or a size of 2^-64 to "
      "2^60");
  for (const double sigma : {0x1p-65, -0x1p-65, 0x1.0000000000001p60, -infinite,
                             std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS(stream.release(0, Sigmas{1.0, sigma, 1.0}, 0, sums, out),
                    privgrad::ConfigError);
  CHECK_THROWS_AS(stream.release(0, Sigmas{1.0, 1.0, 1.0}, 63, sums, out), privgrad::ConfigError);
  CHECK(out == Cells(3, 77));
  CHECK_NOTHROW(stream.release(0, Sigmas{0x1p60, -0x1p60, 0x1p60}, 0, sums, out));
}
