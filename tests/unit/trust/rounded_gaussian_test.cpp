#include "privgrad/trust/rounded_gaussian.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "gaussian_definition.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/instruction_set.hpp"
#include "privgrad/trust/normal_kernels.hpp"
#include "privgrad/trust/rounded_gaussian_tiers.hpp"
#include "support.hpp"
#include "trials.hpp"
#include "trust_support.hpp"

namespace core = privgrad::core;
using core::CounterCipher;
using core::kNormalsPerChunk;
using core::NormalWords;
using core::RandomKey;
using core::release_shift;
using core::RoundedGaussianStream;
using core::rounding_variants;
using core::RoundingAddress;
using core::RoundingScale;
using core::RoundingTier;
using core::RoundingWay;

using privgrad::Cells;
using privgrad::Definition;
using privgrad::differences;
using privgrad::many_words;
using privgrad::mixed_sums;

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

/// Returns the elements first, first + 1, ... of stream 7, released on these sums.
Cells released(const RandomKey& key, double sigma, unsigned shift, const Cells& sums,
               const RoundingWay& way = {}, std::uint64_t first = 0) {
  Cells out(sums.size());
  RoundedGaussianStream(key, 7, way).release(first, sigma, shift, sums, out);
  return out;
}

std::int64_t plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

/// Returns a limit that a chi-square variable with k degrees of freedom exceeds with probability at
/// most 1e-9 (Laurent and Massart 2000, Lemma 1).
double chi_square_limit(std::size_t degrees) {
  const double k = static_cast<double>(degrees), x = std::log(1e9);
  return k + 2.0 * std::sqrt(k * x) + 2.0 * x;
}

/// Returns P(round(N(0, sigma^2)) <= k).
long double cumulative(std::int64_t k, long double sigma) {
  return 0.5L * std::erfc(-(static_cast<long double>(k) + 0.5L) /
                          (sigma * std::numbers::sqrt2_v<long double>));
}

}  // namespace

TEST_CASE("rounded: each element is that of the definition", "[noise][rounded]") {
  // Independent source: class Definition. All scales with all positions of the remainder's bits
  // relative to the fixed point, 64 elements each.
  const RandomKey key = RandomKey::from_seed(41);
  Definition definition(key, 7);
  constexpr std::size_t kCount = 64;
  std::uint64_t first = 0;
  for (const int size : {-60, -20, -1, 1, 8, 10, 12, 15, 16, 20, 25, 30, 40, 44, 50, 60}) {
    for (const unsigned shift : {0u, 1u, 7u, 13u, 16u, 24u, 26u, 27u, 41u, 53u, 62u}) {
      CAPTURE(size, shift);
      const double sigma = std::ldexp(size == 60 ? 1.0 : 1.2345678901234567, size);
      const Cells sums = mixed_sums(kCount, 50 + first);
      const Cells out = released(key, sigma, shift, sums, {}, first);
      Cells expected(kCount);
      for (std::size_t i = 0; i < kCount; ++i)
        expected[i] = definition.rounded(first + i, sigma, shift, sums[i]);
      CHECK(differences(out, expected) == 0);
      first += 500;  // pieces of chunks, from both halves
    }
  }
}

TEST_CASE(
    "rounded: known releases, since a change of the stream would give resumed runs other noise",
    "[noise][rounded]") {
  // Seed 20, stream 7. Independent source: a complete implementation in Python (BLAKE2b of hashlib,
  // AES of the package cryptography, Box-Muller with 384 bits in mpmath).
  const RandomKey key = RandomKey::from_seed(20);
  constexpr std::int64_t kSum = -123456789012345678;
  struct Known {
    std::uint64_t element;
    std::int64_t fine;    // sigma = 1000.5 around 0
    std::int64_t coarse;  // sigma = 2^26, shift 16, around kSum
    std::int64_t wide;    // sigma = 2^60 around kSum
  };
  for (const Known& known :
       std::initializer_list<Known>{{0, 92, -1883801101779, -17123397720575070},
                                    {512, -419, -1883801102302, -606628871475837989},
                                    {1, -421, -1883801102304, -609118388089384740},
                                    {513, -265, -1883801102144, -428333968931801820},
                                    {511, 1011, -1883801100839, 1040992498510200592},
                                    {1023, 639, -1883801101219, 612463583405721413},
                                    {1024, 261, -1883801101606, 177357998484541840},
                                    {12641380, -44, -1883801101918, -174214560740945247},
                                    {12641892, -339, -1883801102220, -514381056444286687}}) {
    CHECK(released(key, 1000.5, 0, {0}, {}, known.element) == Cells{known.fine});
    CHECK(released(key, 0x1p26, 16, {kSum}, {}, known.element) == Cells{known.coarse});
    CHECK(released(key, 0x1p60, 0, {kSum}, {}, known.element) == Cells{known.wide});
  }
}

TEST_CASE("rounded: all tiers agree", "[noise][rounded][long]") {
  // Each tier, used as the first tier, is compared with the next tier on 2^17 elements (2^20), and
  // with the last tier alone on fewer (20 microseconds each).
  const RandomKey key = RandomKey::from_seed(42);
  const auto chunks = static_cast<std::size_t>(
      trials(10, "chunks of rounded normals by the last tier for each scale"));
  const std::size_t exact = chunks * kNormalsPerChunk;
  const Cells sums = mixed_sums(128 * exact, 3);
  for (const int size : {-1, 4, 8, 10, 12, 14, 16, 20, 24, 30, 40}) {
    for (const unsigned shift : {0u, 9u, 40u}) {
      if (size + static_cast<int>(shift) > 59) continue;
      CAPTURE(size, shift);
      const double sigma = std::ldexp(1.1, size + static_cast<int>(shift));
      const Cells fine = released(key, sigma, shift, sums, {RoundingTier::fine});
      for (const RoundingTier tier : {RoundingTier::floats, RoundingTier::doubles})
        CHECK(differences(released(key, sigma, shift, sums, {tier}), fine) == 0);
      CHECK(differences(released(key, sigma, shift, sums), fine) == 0);
      const Cells some(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(exact));
      CHECK(differences(released(key, sigma, shift, some, {RoundingTier::exact}),
                        Cells(fine.begin(), fine.begin() + static_cast<std::ptrdiff_t>(exact))) ==
            0);
    }
  }
}

TEST_CASE("rounded: a tier passes on what it must, and little more", "[noise][rounded]") {
  // A tier must leave undecided the pairs at the ends of u (2^-12 + 2^-18 of all) and all elements
  // within the arithmetic's error of a half-integer: for the float tier at least sigma 2^-24. Upper
  // limits from the header's bounds: 2 sigma 2^-24 (6.74 E r + 0.72), E r = 1.2533.
  const RandomKey key = RandomKey::from_seed(43);
  const Cells sums(std::size_t{1} << 20, 0);
  Cells out(sums.size());
  for (const double sigma : {0x1p8, 0x1p10, 0x1p12}) {
    RoundedGaussianStream stream(key, 1);
    stream.release(0, sigma, 0, sums, out);
    CHECK(stream.counts().elements == sums.size());
    const double share =
        static_cast<double>(stream.counts().fine) / static_cast<double>(sums.size());
    const double ends = 0x1p-12 + 0x1p-18;
    CHECK(share > ends + 2.0 * sigma * 0x1p-24);
    CHECK(share < 1.1 * (ends + 2.0 * sigma * 0x1p-24 * (6.74 * 1.2533 + 0.72)));
    CHECK(stream.counts().exact < 4);
  }
}

TEST_CASE("rounded: the bounds of the float tier hold", "[noise][rounded][long]") {
  // Radii of all words that the tier decides, and both functions of all 2^29 angles, compared with
  // double precision at both edges of their cells. Every 1021st of these, unless all trials are
  // requested; and radii of all words left undecided only with one term.
  const bool all = trials(10, "tenths of the words of the float tier") == 10;
  const std::uint64_t stride = all ? 1 : 1021;
  double worst_radius = -1e9, worst_angle = 0.0;
  NormalWords words;
  core::FloatPairs pairs;
  for (std::uint64_t next = 0; next < std::uint64_t{1} << 32;
       next += stride * NormalWords::kPairs) {
    for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
      words.radius[i] = static_cast<std::uint32_t>(next + i * stride);
      words.angle[i] = static_cast<std::uint32_t>(next + i * stride);
    }
    rounding_variants().front().float_pairs(words, pairs);
    for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
      const std::uint32_t word = words.radius[i];
      for (const double edge : {0.0, 1.0}) {
        if (!core::radius_is_coarse(word)) {
          const double u = (word + edge) * 0x1p-32, lacking = (~word + 1.0 - edge) * 0x1p-32;
          const double r = std::sqrt(-2.0 * (lacking < 0.5 ? std::log1p(-lacking) : std::log(u)));
          const double error = std::abs(r - static_cast<double>(pairs.radius[i])) * 0x1p24;
          worst_radius = std::max(
              worst_radius, error - core::kFloatRadiusSlope * static_cast<double>(pairs.radius[i]));
        }
        if (word >> 29 != 0) continue;
        const double v = std::numbers::pi / 4 * (word + edge) * 0x1p-29;
        worst_angle = std::max({worst_angle, std::abs(std::cos(v) - double{pairs.cosine[i]}),
                                std::abs(std::sin(v) - double{pairs.sine[i]})});
      }
    }
  }
  double worst_coarse = -1e9;
  for (std::uint32_t next = 1u << 12; next < 1u << 20; next += NormalWords::kPairs) {
    for (std::size_t i = 0; i < NormalWords::kPairs; ++i)
      words.radius[i] = next + static_cast<std::uint32_t>(i);
    rounding_variants().front().float_pairs(words, pairs);
    for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
      REQUIRE(core::radius_is_coarse(words.radius[i]));
      REQUIRE(!core::radius_has_no_bound(words.radius[i]));
      for (const double edge : {0.0, 1.0}) {
        const double r = std::sqrt(-2.0 * std::log((words.radius[i] + edge) * 0x1p-32));
        const double error = std::abs(r - static_cast<double>(pairs.radius[i])) * 0x1p24;
        worst_coarse = std::max(
            worst_coarse, error - core::kFloatRadiusSlope * static_cast<double>(pairs.radius[i]));
      }
    }
  }
  CHECK(worst_coarse < core::kFloatCoarseRadiusOffset);
  CHECK(worst_coarse > core::kFloatCoarseRadiusOffset - 20.0);
  CHECK(worst_radius < core::kFloatRadiusOffset);
  CHECK(worst_angle * 0x1p24 < core::kFloatAngleError);
  // Otherwise the bounds are wider than necessary.
  CHECK(worst_radius > core::kFloatRadiusOffset - 0.2);
  CHECK(worst_angle * 0x1p24 > core::kFloatAngleError - 0.2);
}

TEST_CASE("rounded: double arithmetic is within an eighth of what the tiers assume",
          "[noise][rounded]") {
  // Radii of numbers between 2^-32 and 1 / 2 on both sides, compared with long double (64 bits or
  // more).
  STATIC_REQUIRE(std::numeric_limits<long double>::digits >= 64);
  CounterCipher cipher(RandomKey::from_seed(44));
  std::vector<std::uint64_t> bits(std::size_t{1} << 20);
  cipher.read(0, 0, {reinterpret_cast<std::uint8_t*>(bits.data()), bits.size() * 8});
  long double radius = 0.0L, angle = 0.0L;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const double a =
        std::ldexp(static_cast<double>(bits[i] >> 11 | 1), -54 - static_cast<int>(i % 32));
    const bool upper = i / 32 % 2 == 1;
    const long double wide = a;
    const long double r = std::sqrt(-2.0L * (upper ? std::log1p(-wide) : std::log(wide)));
    const double got = core::kernels::radius_of(a, upper ? ~std::uint64_t{0} : 0);
    radius = std::max(radius, std::abs(static_cast<long double>(got) / r - 1.0L));
    const double t = std::ldexp(static_cast<double>(bits[i] >> 11), -53);
    const auto pair = core::kernels::turned(0, t, 1.0);
    const long double phi = std::numbers::pi_v<long double> / 4 * t;
    angle = std::max(
        {angle, std::abs(std::cos(phi) - pair.cosine), std::abs(std::sin(phi) - pair.sine)});
  }
  CHECK(radius + angle < 0x1p-49L);
  CHECK(radius + angle > 0x1p-54L);  // otherwise nothing was compared
}

TEST_CASE("rounded: all instruction sets give the same bits", "[noise][rounded]") {
  CHECK(rounding_variants().front().instruction_set ==
        privgrad::name_of(privgrad::instruction_set()));
  CHECK(rounding_variants().size() == static_cast<std::size_t>(privgrad::instruction_set()));
  const auto& plain = rounding_variants().back();
  CHECK(plain.instruction_set == "plain");
  const Cells sums = mixed_sums(kNormalsPerChunk, 5);
  const std::span<const std::int64_t, kNormalsPerChunk> chunk(sums.data(), kNormalsPerChunk);
  for (const auto& variant : rounding_variants()) {
    INFO(variant.instruction_set);
    int different = 0;
    for (const auto& [size, shift] : std::initializer_list<std::pair<int, unsigned>>{
             {-3, 0}, {9, 0}, {9, 5}, {12, 16}, {16, 20}, {16, 62}}) {
      const RoundingScale scale(std::ldexp(1.3, size + static_cast<int>(shift)), shift);
      for (const NormalWords& words : many_words(20)) {
        for (const bool floats : {true, false}) {
          core::RoundedChunk expected, actual;
          (floats ? plain.floats : plain.doubles)(words, scale, chunk, expected);
          (floats ? variant.floats : variant.doubles)(words, scale, chunk, actual);
          different += expected.k != actual.k || expected.undecided != actual.undecided;
          Cells a(sums.size()), b(sums.size());
          plain.add(expected, shift, chunk, std::span<std::int64_t, kNormalsPerChunk>(a));
          variant.add(expected, shift, chunk, std::span<std::int64_t, kNormalsPerChunk>(b));
          different += a != b;
          for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
            const RoundingAddress address{i, words.radius[i], words.angle[i], i % 2 == 1};
            const core::RoundingBits bits{i * 0x9e3779b97f4a7c15, i * 0xc2b2ae3d27d4eb4f};
            different += plain.fine({&address, 1}, scale, 0, {&bits, 1}) !=
                         variant.fine({&address, 1}, scale, 0, {&bits, 1});
          }
        }
      }
    }
    CHECK(different == 0);
    const RandomKey key = RandomKey::from_seed(45);
    const Cells many = mixed_sums(20'000, 6);
    CHECK(released(key, 0x1p26, 16, many, {{}, &variant}) ==
          released(key, 0x1p26, 16, many, {{}, &plain}));
  }
}

TEST_CASE("rounded: pairs at the ends of u have exact elements, too", "[noise][rounded]") {
  // Words near 0 and near 2^32, in the tiers for single elements; the others leave them undecided.
  const RandomKey key = RandomKey::from_seed(46);
  Definition definition(key, 7);
  CounterCipher cipher(key.derive("rounded normals 7"));
  const std::array extensions{&cipher};
  const RoundingScale scale(0x1.8p12, 3);
  for (std::uint32_t i = 0; i < 128; ++i) {
    const std::uint32_t size = i % 32;
    const std::uint32_t word = (std::uint32_t{1} << size) - (i / 32 % 2 == 0 ? 1 : 0);
    const RoundingAddress address{i, i < 64 ? word : ~word, i * 0x9e3779b9u, i % 3 == 0};
    const std::int64_t expected = definition.rounded(address, scale.sigmas[0], scale.shift, 5);
    CHECK(core::round_exactly({&address, 1}, scale, 5, extensions) == expected);
    const auto bits = core::read_extension(i, 0, cipher);
    const auto fine = rounding_variants().front().fine({&address, 1}, scale, 5, {&bits, 1});
    const bool at_the_end = address.radius == 0 || ~address.radius == 0;
    CHECK(fine.has_value() == !at_the_end);
    if (fine) CHECK(*fine == expected);
  }
  const std::array<std::int64_t, kNormalsPerChunk> sums{};
  for (const NormalWords& words : many_words(2)) {
    core::RoundedChunk floats, doubles;
    rounding_variants().front().floats(words, scale, sums, floats);
    rounding_variants().front().doubles(words, scale, sums, doubles);
    for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
      const bool end = words.radius[i] < 1u << 20 || words.radius[i] >= 0u - (1u << 14);
      if (!end) continue;
      CHECK(floats.undecided[i] == 3);
      CHECK(doubles.undecided[i] == 3);
    }
  }
}

TEST_CASE("rounded: the last tier reads on until it knows", "[noise][rounded]") {
  // A sigma beyond those of releases, 2^120, so that 96 bits leave 2^27 cells undecided. Expected
  // values from 381 bits; the result is modulo 2^64.
  const RandomKey key = RandomKey::from_seed(47);
  Definition definition(key, 7);
  CounterCipher cipher(key.derive("rounded normals 7"));
  const std::array extensions{&cipher};
  const RoundingScale scale(0x1.23456789abcdep120, 0);
  for (std::uint32_t i = 0; i < 100; ++i) {
    const RoundingAddress address{i, i * 0x9e3779b9u, i * 0x85ebca6bu, i % 2 == 0};
    CHECK(core::round_exactly({&address, 1}, scale, 0, extensions) ==
          definition.rounded(address, scale.sigmas[0], 0, 0));
  }
}

TEST_CASE("rounded: cells have the probabilities of a rounded Gaussian", "[noise][rounded]") {
  // 2^24 draws for each sigma; one class for each cell with an expected count of at least 20, two
  // for the tails. Expected: differences of erfc in long double. Fixed seed; false alarm 1e-9 each.
  constexpr std::size_t kDraws = std::size_t{1} << 24;
  Cells draws(kDraws);
  for (const auto& [sigma, shift] : std::initializer_list<std::pair<double, unsigned>>{
           {0.5, 0}, {2.0, 0}, {10.0, 0}, {20480.0, 12}}) {
    CAPTURE(sigma, shift);
    std::fill(draws.begin(), draws.end(), 0);
    RoundedGaussianStream(RandomKey::from_seed(48), 3).release(0, sigma, shift, draws, draws);
    const double coarse = std::ldexp(sigma, -static_cast<int>(shift));
    std::int64_t most = 0;
    const auto expects = [&](std::int64_t k) {
      return static_cast<double>(cumulative(k, coarse) - cumulative(k - 1, coarse)) * kDraws;
    };
    while (expects(most + 1) >= 20.0) ++most;
    std::vector<double> seen(static_cast<std::size_t>(2 * most + 3));
    for (const std::int64_t x : draws)
      ++seen[static_cast<std::size_t>(std::clamp(x, -most - 1, most + 1) + most + 1)];
    const double tail = static_cast<double>(cumulative(-most - 1, coarse)) * kDraws;
    double statistic = 0.0;
    for (std::int64_t k = -most - 1; k <= most + 1; ++k) {
      const double expected = std::abs(k) == most + 1 ? tail : expects(k);
      const double difference = seen[static_cast<std::size_t>(k + most + 1)] - expected;
      statistic += difference * difference / expected;
    }
    CHECK(statistic < chi_square_limit(seen.size() - 1));
  }
}

TEST_CASE("rounded: elements, streams and keys are uncorrelated", "[noise][rounded]") {
  // Products of 2^20 pairs, and of their squares, are within 6 standard errors: false alarm 2e-9
  // each. A lag of 512 is the distance from the cosine to the sine of a pair.
  constexpr std::size_t kCount = std::size_t{1} << 20;
  constexpr double kSigma = 1024.0;
  const RandomKey key = RandomKey::from_seed(49);
  const auto draw = [&](const RandomKey& from, std::uint64_t stream) {
    Cells out(kCount + 2048);
    RoundedGaussianStream(from, stream).release(0, kSigma, 0, out, out);
    return out;
  };
  const Cells base = draw(key, 0);
  const auto uncorrelated = [&](std::span<const std::int64_t> other) {
    double products = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double a = static_cast<double>(base[i]) / kSigma;
      const double b = static_cast<double>(other[i]) / kSigma;
      products += a * b;
      squares += (a * a - 1.0) * (b * b - 1.0);
    }
    CHECK(std::abs(products) < 6.0 * std::sqrt(double{kCount}));
    CHECK(std::abs(squares) < 12.0 * std::sqrt(double{kCount}));
  };
  for (const std::size_t lag : {1u, 512u, 1024u}) uncorrelated(std::span(base).subspan(lag));
  uncorrelated(draw(key, 1));
  uncorrelated(draw(key.derive("other"), 0));
}

TEST_CASE("rounded: an element has an address: key, stream, position", "[noise][rounded]") {
  const RandomKey key = RandomKey::from_seed(51);
  const Cells sums = mixed_sums(10'000, 8);
  const Cells all = released(key, 0x1p20, 11, sums);
  RoundedGaussianStream stream(key, 7);
  // Backwards, across chunk boundaries, by single elements and whole chunks, in place or not.
  bool in_place = false;
  for (const auto& [first, count] : std::initializer_list<std::pair<std::size_t, std::size_t>>{
           {9000, 1000}, {1600, 100}, {1000, 48}, {1023, 2}, {0, 1}, {2048, 2048}, {5, 9000}}) {
    const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(first);
    Cells part(begin, begin + static_cast<std::ptrdiff_t>(count)), out(count, 77);
    in_place = !in_place;
    stream.release(first, 0x1p20, 11, part, in_place ? part : out);
    if (in_place) out = part;
    CHECK(std::equal(out.begin(), out.end(), all.begin() + static_cast<std::ptrdiff_t>(first)));
  }
  const Cells zeros(4000);
  const Cells here = released(key, 0x1p10, 0, zeros);
  Cells other(zeros.size());
  RoundedGaussianStream(key, 8).release(0, 0x1p10, 0, zeros, other);
  CHECK(other != here);
  CHECK(released(key.derive("other"), 0x1p10, 0, zeros) != here);
  CHECK(released(key, 0x1p10, 0, zeros, {}, std::uint64_t{1} << 63) != here);
}

TEST_CASE("rounded: any number of threads draws the same noise", "[noise][rounded]") {
  const RandomKey key = RandomKey::from_seed(52);
  const Cells sums = mixed_sums(100'000, 9);
  const Cells expected = released(key, 0x1p26, 16, sums);
  for (const int threads : {1, 2, 4}) {
    const auto executor = core::make_executor(threads);
    Cells out(sums.size());
    executor->for_each_chunk(10, [&](std::size_t chunk) {
      const auto from = std::span(sums).subspan(chunk * 10'000, 10'000);
      RoundedGaussianStream(key, 7).release(chunk * 10'000, 0x1p26, 16, from,
                                            std::span(out).subspan(chunk * 10'000, 10'000));
    });
    CHECK(out == expected);
  }
}

TEST_CASE("rounded: whole coarse cells pass through, modulo 2^64", "[noise][rounded]") {
  // release(s) = s / 2^shift + release(0) for multiples of 2^shift; sums that leave the range wrap
  // around.
  const RandomKey key = RandomKey::from_seed(53);
  const Cells zeros(5000);
  for (const auto& [sigma, shift] : std::initializer_list<std::pair<double, unsigned>>{
           {0x1p10, 0}, {0x1p20, 0}, {0x1p60, 0}, {0x1p26, 16}, {0x1p60, 50}}) {
    CAPTURE(sigma, shift);
    const Cells noise = released(key, sigma, shift, zeros);
    for (const std::int64_t whole : {kMost >> shift, kLeast >> shift, std::int64_t{-3}}) {
      const Cells sums(zeros.size(), whole * (std::int64_t{1} << shift));
      Cells expected = noise;
      for (std::int64_t& x : expected) x = plus(x, whole);
      CHECK(differences(released(key, sigma, shift, sums), expected) == 0);
    }
  }
}

TEST_CASE("rounded: the remainder counts", "[noise][rounded]") {
  // With noise far smaller than a coarse cell, the sum itself is rounded to nearest: sigma = 2^-64
  // is 2^-65 of the smallest distance from a half-integer for odd sums and shifts of at least 2.
  const RandomKey key = RandomKey::from_seed(54);
  for (const unsigned shift : {2u, 11u, 27u, 40u, 62u}) {
    Cells sums = mixed_sums(4000, 10), expected(sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] |= 1;
      expected[i] = (sums[i] >> shift) + (sums[i] >> (shift - 1) & 1);
    }
    CHECK(differences(released(key, 0x1p-64, shift, sums), expected) == 0);
  }
}

TEST_CASE("rounded: what cannot be released is refused, and nothing is written",
          "[noise][rounded]") {
  const RandomKey key = RandomKey::from_seed(55);
  RoundedGaussianStream stream(key, 0);
  const Cells sums(3);
  Cells out(3, 77);
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double sigma : {0.0, -1.0, 0x1p-65, 0x1.0000000000001p60, infinite, -infinite,
                             std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(stream.release(0, sigma, 0, sums, out), privgrad::ConfigError);
    CHECK_THROWS_AS(release_shift(sigma), privgrad::ConfigError);
  }
  CHECK_THROWS_AS(stream.release(0, 1.0, 63, sums, out), privgrad::ConfigError);
  CHECK_THROWS_AS(stream.release(0, 1.0, 0, sums, std::span(out).first(2)), privgrad::ConfigError);
  CHECK(out == Cells(3, 77));
  stream.release(0, core::kSmallestRoundedSigma, 62, sums, out);
  CHECK(out == Cells(3, 0));
  CHECK_NOTHROW(stream.release(0, core::kLargestRoundedSigma, 0, sums, out));
}

TEST_CASE("rounded: the shift of a release leaves between 2^9 and 2^10 coarse cells",
          "[noise][rounded]") {
  for (const double sigma : {0x1p-64, 1.0, 0x1.fffffffffffffp10}) CHECK(release_shift(sigma) == 0);
  for (const double sigma : {2048.0, 3000.0, 0x1p26, 0x1.fffffffffffffp26, 1e12, 0x1p60}) {
    CAPTURE(sigma);
    const double coarse = std::ldexp(sigma, -static_cast<int>(release_shift(sigma)));
    CHECK(coarse >= 512.0);
    CHECK(coarse < 1024.0);
  }
}
