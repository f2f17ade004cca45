#include "privgrad/trust/normals.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "privgrad/data/executor.hpp"
#include "privgrad/instruction_set.hpp"
#include "support.hpp"
#include "trials.hpp"
#include "trust_support.hpp"

using privgrad::core::box_muller_variants;
using privgrad::core::CounterCipher;
using privgrad::core::fill_normals;
using privgrad::core::kNormalsPerChunk;
using privgrad::core::make_executor;
using privgrad::core::needs_refinement;
using privgrad::core::NormalStream;
using privgrad::core::NormalWords;
using privgrad::core::RandomKey;
using privgrad::core::refined_pair;

namespace {

std::vector<float> normals(const RandomKey& key, std::uint64_t stream, std::uint64_t first,
                           std::size_t count) {
  std::vector<float> out(count);
  fill_normals(key, stream, first, out);
  return out;
}

/// P(X > x), with its relative accuracy for x > 0.
double normal_tail(double x) { return 0.5 * std::erfc(x / std::numbers::sqrt2); }

struct Reference {
  long double cosine;
  long double sine;
};

/// What box_muller.hpp promises, and what the tests allow.
constexpr double kAccuracy = 3e-7;

/// The formulas of box_muller.hpp in long double, by the C library.
/// \param lacking  1 - u, which says more where u is near 1.
Reference exact_pair(long double u, long double lacking, std::uint32_t angle) {
  const std::uint32_t k = angle & 0x1fffffff;
  const long double t =
      std::numbers::pi_v<long double> / 4 * std::ldexp(static_cast<long double>(k) + 0.5L, -29);
  const long double r = std::sqrt(-2 * (lacking < 0.5L ? std::log1p(-lacking) : std::log(u)));
  Reference pair{r * std::cos(t), r * std::sin(t)};
  if (angle >> 29 & 1) std::swap(pair.cosine, pair.sine);
  if (angle >> 31 & 1) pair.cosine = -pair.cosine;
  if (angle >> 30 & 1) pair.sine = -pair.sine;
  return pair;
}

Reference coarse_pair(std::uint32_t radius, std::uint32_t angle) {
  const long double u = std::ldexp(static_cast<long double>(radius) + 0.5L, -32);
  return exact_pair(u, 1.0L - u, angle);
}

Reference fine_pair(std::uint32_t radius, std::uint32_t angle, std::uint64_t more) {
  // Both from their own words: 96 bits do not fit in a long double.
  const auto part = [](std::uint32_t whole, std::uint64_t fraction) {
    return std::ldexp(static_cast<long double>(whole) +
                          std::ldexp(static_cast<long double>(fraction) + 0.5L, -64),
                      -32);
  };
  return exact_pair(part(radius, more), part(~radius, ~more), angle);
}

double relative_error(float actual, long double expected) {
  return static_cast<double>(std::abs((static_cast<long double>(actual) - expected) / expected));
}

/// Counts of draws in equal cells of [-8, 8], and beyond.
struct Histogram {
  static constexpr int kCellsPerUnit = 64;
  static constexpr int kCells = 16 * kCellsPerUnit;
  std::array<std::uint64_t, kCells + 2> counts{};

  void add(std::span<const float> draws) {
    for (const double x : draws) {
      const double cell = std::floor((x + 8.0) * kCellsPerUnit) + 1.0;
      ++counts[static_cast<std::size_t>(std::clamp(cell, 0.0, kCells + 1.0))];
    }
  }

  static double edge(int cell) { return -8.0 + static_cast<double>(cell) / kCellsPerUnit; }

  std::uint64_t beyond(double x) const {
    std::uint64_t count = 0;
    for (int cell = 0; cell <= kCells; ++cell) {
      if (edge(cell) <= -x) count += counts[static_cast<std::size_t>(cell)];
      if (edge(cell) >= x) count += counts[static_cast<std::size_t>(cell) + 1];
    }
    return count;
  }
};

}  // namespace

TEST_CASE("the counter cipher is AES-128 in counter mode", "[noise]") {
  // Keys are not readable, so the check is on structure here; the known answers below, made with an
  // independent implementation, pin the cipher.
  CounterCipher cipher(RandomKey::from_seed(1));
  std::vector<std::uint8_t> whole(16 * 1000), part(16 * 2), other(16 * 2);
  cipher.read(7, 0, whole);
  cipher.read(7, 3, part);
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 16 * 3));
  cipher.read(7, 5, part);  // reads on
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 16 * 5));
  cipher.read(8, 7, other);  // the same block of another domain
  CHECK(!std::equal(other.begin(), other.end(), whole.begin() + 16 * 7));
  std::array<std::uint8_t, 5> beginning{};
  cipher.read(7, 9, beginning);  // ends within a block: the next read must not go on from there
  cipher.read(7, 9, part);
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 16 * 9));
}

TEST_CASE("noise is addressed by key, stream and position, not by history", "[noise]") {
  const RandomKey key = RandomKey::from_seed(1);
  const auto all = normals(key, 3, 0, 10'000);
  NormalStream stream(key, 3);
  // Backwards, across the edges of chunks, single elements, whole chunks.
  for (const auto& [first, count] : std::initializer_list<std::pair<std::size_t, std::size_t>>{
           {9000, 1000}, {1600, 100}, {1000, 48}, {1023, 2}, {0, 1}, {2048, 2048}, {5, 9000}}) {
    std::vector<float> part(count);
    stream.fill(first, part);
    CHECK(std::equal(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(first)));
  }
  CHECK(normals(key, 4, 0, 4000) != normals(key, 3, 0, 4000));
  CHECK(normals(RandomKey::from_seed(2), 3, 0, 4000) != normals(key, 3, 0, 4000));
  CHECK(normals(key.derive("a"), 3, 0, 4000) != normals(key.derive("b"), 3, 0, 4000));
}

TEST_CASE("elements far into a stream are as good as the first", "[noise]") {
  const RandomKey key = RandomKey::from_seed(1);
  constexpr std::uint64_t kFar = std::uint64_t{1} << 63;
  const auto far = normals(key, 0, kFar, 2000);
  CHECK(far != normals(key, 0, 0, 2000));
  CHECK(normals(key, 0, kFar + 1500, 500) == std::vector<float>(far.begin() + 1500, far.end()));
}

TEST_CASE("known noise: a change of the stream would give resumed runs other noise", "[noise]") {
  // Seed 20, stream 7. Independent source: the whole way again in Python (BLAKE2b of hashlib, AES
  // of the package cryptography, Box-Muller in mpmath with 30 digits), which agrees with these
  // decimals; the sum is this code's own. Elements 1114, 1626, 6309 and 11828 are refined.
  const RandomKey key = RandomKey::from_seed(20);
  std::array<std::uint8_t, 16> block{};
  CounterCipher(key.derive("normals 7")).read(0, 0, block);
  CHECK(block == std::array<std::uint8_t, 16>{0x9f, 0x63, 0x53, 0x8c, 0x7d, 0x76, 0x42, 0x63, 0x2c,
                                              0x86, 0x12, 0xc6, 0x24, 0x99, 0x52, 0xd3});
  struct Known {
    std::uint64_t element;
    double python;
  };
  for (const Known& known : std::initializer_list<Known>{{0, -1.08219192281804},
                                                         {512, -0.176869100122122},
                                                         {1, -0.429174080229428},
                                                         {513, -1.30793226267519},
                                                         {511, -0.3770229749462},
                                                         {1023, -0.0291542072549029},
                                                         {1024, -0.503641600166208},
                                                         {12641380, 0.170694244095823},
                                                         {12641892, 0.380033363379969},
                                                         {1114, -3.78281784953366},
                                                         {1626, -1.54233933599684},
                                                         {6309, 0.00235482604584363},
                                                         {11828, -0.00992382554907312}}) {
    const double drawn = normals(key, 7, known.element, 1).front();
    CHECK_THAT(drawn, WithinRel(known.python, kAccuracy));
  }
  std::uint32_t sum = 0;
  for (const float x : normals(key, 7, 0, std::size_t{1} << 17)) {
    sum = sum * 1664525 + std::bit_cast<std::uint32_t>(x);
  }
  CHECK(sum == 0x7ed6782f);
}

TEST_CASE("any number of threads draws the same noise", "[noise]") {
  const RandomKey key = RandomKey::from_seed(5);
  constexpr std::size_t kCount = 100'000;
  const auto expected = normals(key, 9, 0, kCount);
  for (const int threads : {1, 2, 4}) {
    const auto executor = make_executor(threads);
    std::vector<float> drawn(kCount);
    executor->for_each_chunk(10, [&](std::size_t chunk) {
      NormalStream(key, 9).fill(chunk * 10'000, std::span(drawn).subspan(chunk * 10'000, 10'000));
    });
    CHECK(drawn == expected);
  }
}

TEST_CASE("keys of the operating system differ", "[noise]") {
  CHECK(normals(RandomKey::from_operating_system(), 0, 0, 8) !=
        normals(RandomKey::from_operating_system(), 0, 0, 8));
}

TEST_CASE("normals are made at the level of the process, lower ones are there to compare",
          "[noise]") {
  CHECK(box_muller_variants().front().instruction_set ==
        privgrad::name_of(privgrad::instruction_set()));
  CHECK(box_muller_variants().size() == static_cast<std::size_t>(privgrad::instruction_set()));
}

TEST_CASE("all instruction sets compute the same normals, bit for bit", "[noise]") {
  // 200 chunks of random words, one of zeros, one of ones.
  NormalWords zeros{}, ones;
  std::memset(&ones, 0xff, sizeof ones);
  std::vector<NormalWords> inputs{zeros, ones};
  for (std::uint64_t seed = 0; seed < 200; ++seed) inputs.push_back(random_words(seed));
  CHECK(box_muller_variants().back().instruction_set == "plain");
  for (const auto& variant : box_muller_variants()) {
    INFO(variant.instruction_set);
    int different = 0;
    for (const NormalWords& words : inputs) {
      std::array<float, kNormalsPerChunk> expected{}, actual{};
      const bool refine = box_muller_variants().back().transform(words, expected);
      different += variant.transform(words, actual) != refine;
      different += std::memcmp(expected.data(), actual.data(), sizeof expected) != 0;
      const bool expected_refine =
          std::any_of(words.radius.begin(), words.radius.end(), needs_refinement);
      different += refine != expected_refine;
    }
    CHECK(different == 0);
  }
}

TEST_CASE("Box-Muller is within 3e-7 of the exact formulas", "[noise]") {
  double worst = 0.0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    NormalWords words = random_words(seed);
    if (seed < 64) {
      // u near 1 or 0, ever nearer; and angles near the edges of their octant.
      const std::uint32_t leading = ~std::uint32_t{0} << (31 - seed / 2 % 32);
      for (std::uint32_t& radius : words.radius) {
        radius = seed % 2 ? radius | leading : radius & ~leading;
      }
      for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
        words.angle[i] = i % 2 ? words.angle[i] | 0x1fffffff : words.angle[i] & 0xe0000000;
      }
    }
    std::array<float, kNormalsPerChunk> out{};
    box_muller_variants().front().transform(words, out);
    for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
      const Reference pair = coarse_pair(words.radius[i], words.angle[i]);
      worst = std::max({worst, relative_error(out[i], pair.cosine),
                        relative_error(out[NormalWords::kPairs + i], pair.sine)});
    }
  }
  CHECK(worst < kAccuracy);
}

TEST_CASE("both ends of u are exact down to the smallest and the largest", "[noise]") {
  CHECK(needs_refinement(0x000fffff));
  CHECK_FALSE(needs_refinement(0x00100000));
  CHECK(needs_refinement(0xfff00000));
  CHECK_FALSE(needs_refinement(0xffefffff));
  double worst = 0.0, largest = 0.0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const NormalWords words = random_words(seed);
    for (std::size_t i = 0; i + 1 < NormalWords::kPairs; ++i) {
      // From 12 equal leading bits to all 32, then those of the further word.
      std::uint32_t radius = words.radius[i] >> 12 >> (i % 21);
      std::uint64_t more = std::uint64_t{words.radius[i + 1]} << 32 | words.angle[i + 1];
      if (i % 3 == 0) more >>= i % 64;
      if (i % 2 == 1) {
        radius = ~radius;
        more = ~more;
      }
      REQUIRE(needs_refinement(radius));
      const auto [cosine, sine] = refined_pair(radius, words.angle[i], more);
      const Reference pair = fine_pair(radius, words.angle[i], more);
      worst =
          std::max({worst, relative_error(cosine, pair.cosine), relative_error(sine, pair.sine)});
    }
  }
  CHECK(worst < kAccuracy);
  // The largest value, from the words that are all zero: sqrt(2 * 97 ln 2), its angle 0.
  for (const std::uint32_t angle : {0x0u, 0x20000000u, 0x80000000u, 0xe0000000u}) {
    const auto [cosine, sine] = refined_pair(0, angle, 0);
    largest = std::max<double>({largest, std::abs(cosine), std::abs(sine)});
  }
  CHECK_THAT(largest, WithinRel(std::sqrt(194.0 * std::numbers::ln2), kAccuracy));
  CHECK_THAT(largest, WithinAbs(privgrad::core::kLargestNormal, 1e-3));
  CHECK(largest > privgrad::core::kLargestNormal);
  CHECK(2.0 * normal_tail(largest) < 5e-31);
}

TEST_CASE("pairs at the ends of u take their further bits from the second domain", "[noise]") {
  // The stream made again from the cipher, pair by pair. 2^17 pairs, of which about 64 are refined.
  const RandomKey key = RandomKey::from_seed(30);
  constexpr std::size_t kChunks = 256;
  const auto drawn = normals(key, 12, 0, kChunks * kNormalsPerChunk);
  CounterCipher cipher(key.derive("normals 12"));
  int refined = 0;
  double worst = 0.0;
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
    NormalWords words;
    cipher.read(0, chunk * sizeof words / 16,
                {reinterpret_cast<std::uint8_t*>(&words), sizeof words});
    for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
      Reference pair = coarse_pair(words.radius[i], words.angle[i]);
      if (needs_refinement(words.radius[i])) {
        std::uint64_t more = 0;
        cipher.read(1, chunk * NormalWords::kPairs + i,
                    {reinterpret_cast<std::uint8_t*>(&more), sizeof more});
        pair = fine_pair(words.radius[i], words.angle[i], more);
        ++refined;
      }
      const float* const chunk_begin = drawn.data() + chunk * kNormalsPerChunk;
      worst = std::max({worst, relative_error(chunk_begin[i], pair.cosine),
                        relative_error(chunk_begin[NormalWords::kPairs + i], pair.sine)});
    }
  }
  CHECK(refined > 30);  // Poisson, mean 64: fewer with probability 1e-6, and the seed is fixed
  CHECK(worst < kAccuracy);
}

TEST_CASE("noise has the moments and the distribution of a standard normal", "[noise]") {
  // n = 1024 * 10^4 draws of ten streams, seed fixed. Each moment within 6 standard errors: false
  // alarms below 1e-8.
  constexpr std::size_t kStreams = 10, kCount = kNormalsPerChunk * 1000;
  const double n = static_cast<double>(kStreams * kCount);
  double sum = 0, squares = 0, cubes = 0, fourths = 0;
  Histogram histogram;
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    const auto draws = normals(RandomKey::from_seed(20), stream, 0, kCount);
    for (const double x : draws) {
      sum += x;
      squares += x * x;
      cubes += x * x * x;
      fourths += x * x * x * x;
    }
    histogram.add(draws);
  }
  const double error = 6.0 / std::sqrt(n);
  CHECK(std::abs(sum / n) < error);
  CHECK(std::abs(squares / n - 1.0) < error * std::sqrt(2.0));
  CHECK(std::abs(cubes / n) < error * std::sqrt(15.0));
  CHECK(std::abs(fourths / n - 3.0) < error * std::sqrt(96.0));

  // Kolmogorov-Smirnov at the 1025 edges of cells: its distance is at most that over all x, so
  // Massart's bound holds: exceeded with probability below 1e-9. Chi-square over the cells that
  // expect at least 100 draws, within 6 standard deviations: false alarm below 1e-7.
  double below = 0.0, distance = 0.0, chi_square = 0.0;
  int cells = 0;
  for (int cell = 0; cell <= Histogram::kCells; ++cell) {
    const double left = Histogram::edge(cell), right = Histogram::edge(cell + 1);
    below += static_cast<double>(histogram.counts[static_cast<std::size_t>(cell)]);
    distance = std::max(distance, std::abs(below / n - (1.0 - normal_tail(left))));
    const double probability = left < 0.0 ? normal_tail(-right) - normal_tail(-left)
                                          : normal_tail(left) - normal_tail(right);
    if (probability * n < 100.0) continue;
    const double difference =
        static_cast<double>(histogram.counts[static_cast<std::size_t>(cell) + 1]) - probability * n;
    chi_square += difference * difference / (probability * n);
    ++cells;
  }
  CHECK(distance < std::sqrt(std::log(2.0 / 1e-9) / (2.0 * n)));
  CHECK(cells > 400);
  CHECK(std::abs(chi_square - cells) < 6.0 * std::sqrt(2.0 * cells));
}

TEST_CASE("noise has tails: as many draws beyond 4 and 5 sigma as there should be", "[noise]") {
  // 2^26 draws, two-sided: 4251 expected beyond 4, 38.5 beyond 5, 0.13 beyond 6. Poisson, the
  // bounds are 6 standard deviations and (for the last, a count of at most 4) 2e-7.
  constexpr std::size_t kCount = std::size_t{1} << 18;
  Histogram histogram;
  std::vector<float> draws(kCount);
  for (std::uint64_t stream = 0; stream < 256; ++stream) {
    fill_normals(RandomKey::from_seed(21), stream, 0, draws);
    histogram.add(draws);
  }
  for (const double sigmas : {4.0, 5.0}) {
    const double expected = 2.0 * normal_tail(sigmas) * 256.0 * static_cast<double>(kCount);
    CHECK(std::abs(static_cast<double>(histogram.beyond(sigmas)) - expected) <
          6.0 * std::sqrt(expected));
  }
  CHECK(histogram.beyond(6.0) <= 4);
}

TEST_CASE("noise beyond 6 sigma, counted over 2^33 draws", "[noise][long]") {
  // 17 expected in all, a minute on one core. Poisson: counts outside [3, 40], or above 8 of
  // the 1.7 expected in a tenth, have a probability below 3e-4, and the seeds are fixed.
  constexpr std::size_t kCount = std::size_t{1} << 18;
  std::uint64_t beyond = 0;
  std::vector<float> draws(kCount);
  const int count = trials(1 << 15, "streams of 2^18 draws");
  for (int stream = 0; stream < count; ++stream) {
    fill_normals(RandomKey::from_seed(23), static_cast<std::uint64_t>(stream), 0, draws);
    for (const double x : draws) beyond += std::abs(x) > 6.0;
  }
  const double expected = 2.0 * normal_tail(6.0) * count * static_cast<double>(kCount);
  CHECK(static_cast<double>(beyond) > expected - 3.5 * std::sqrt(expected));
  CHECK(static_cast<double>(beyond) < expected + 5.7 * std::sqrt(expected));
}

TEST_CASE("far tails have their shape: u, given that it is tiny, is uniform", "[noise]") {
  // exp(-r^2 / 2) of pairs whose u has `zeros` leading zero bits, times 2^zeros, must be uniform:
  // Kolmogorov-Smirnov over 25600 pairs, each at 1e-9. r exceeds 4.08, 7.45, 8.32 and 10.2. The
  // roundings of r to float, 6e-8 r, move u by 6e-8 r^2 of its size, far below what the test sees.
  for (const int zeros : {12, 40, 50, 75}) {
    INFO(zeros << " zero bits");
    std::vector<double> uniforms;
    double largest = 0.0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const NormalWords words = random_words(1000 + seed);
      for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
        const std::uint32_t radius = zeros < 32 ? words.radius[i] >> zeros : 0;
        const std::size_t next = (i + 1) % NormalWords::kPairs;
        const std::uint64_t more = (std::uint64_t{words.radius[next]} << 32 | words.angle[next]) >>
                                   std::max(0, zeros - 32);
        const auto pair = refined_pair(radius, words.angle[i], more);
        const double x = pair.first, y = pair.second;
        uniforms.push_back(std::exp(-0.5 * (x * x + y * y) + zeros * std::numbers::ln2));
        largest = std::max({largest, std::abs(x), std::abs(y)});
      }
    }
    std::sort(uniforms.begin(), uniforms.end());
    const double n = static_cast<double>(uniforms.size());
    double distance = 0.0;
    for (std::size_t i = 0; i < uniforms.size(); ++i) {
      distance = std::max({distance, std::abs(uniforms[i] - static_cast<double>(i) / n),
                           std::abs(uniforms[i] - static_cast<double>(i + 1) / n)});
    }
    CHECK(distance < std::sqrt(std::log(2.0 / 1e-9) / (2.0 * n)));
    CHECK(largest > std::sqrt(2.0 * zeros * std::numbers::ln2));  // seen as a draw, not only as r
  }
}

TEST_CASE("noise is uncorrelated over streams, keys and positions", "[noise]") {
  // Correlations of draws and of their squares over 2^20 products each, at 6 standard errors (1 and
  // 2 per product of unit variance): false alarms below 1e-7 in all. Lags: neighbours, the two of a
  // pair, chunks; streams that differ in one bit.
  constexpr std::size_t kCount = std::size_t{1} << 20;
  const RandomKey key = RandomKey::from_seed(22);
  const auto base = normals(key, 0, 0, kCount + 4096);
  const auto uncorrelated = [&](std::span<const float> other) {
    double products = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double x = base[i], y = other[i];
      products += x * y;
      squares += (x * x - 1.0) * (y * y - 1.0);
    }
    const double root = std::sqrt(static_cast<double>(kCount));
    CHECK(std::abs(products) < 6.0 * root);
    CHECK(std::abs(squares) < 6.0 * 2.0 * root);
  };
  for (const std::size_t lag : {1u, 2u, 4u, 8u, 256u, 512u, 1024u, 2048u}) {
    INFO("lag " << lag);
    uncorrelated(std::span(base).subspan(lag));
  }
  for (const std::uint64_t stream : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{1} << 63}) {
    INFO("stream " << stream);
    uncorrelated(normals(key, stream, 0, kCount));
  }
  uncorrelated(normals(key.derive("other"), 0, 0, kCount));
}

TEST_CASE("the two of a pair are independent", "[noise]") {
  // Pairs in 16 x 16 cells, edges at the 16ths of the distribution: chi-square with 255 degrees of
  // freedom within 6 standard deviations: false alarm below 1e-7. 2^20 pairs.
  const auto draws = normals(RandomKey::from_seed(24), 0, 0, std::size_t{1} << 21);
  const auto cell = [](double x) {
    return static_cast<std::size_t>(std::min(15.0, 16.0 * normal_tail(x)));
  };
  std::array<std::array<double, 16>, 16> counts{};
  for (std::size_t chunk = 0; chunk < draws.size(); chunk += kNormalsPerChunk) {
    for (std::size_t i = chunk; i < chunk + NormalWords::kPairs; ++i)
      ++counts[cell(draws[i])][cell(draws[i + NormalWords::kPairs])];
  }
  const double expected = static_cast<double>(draws.size() / 2) / 256.0;
  double chi_square = 0.0;
  for (const auto& row : counts) {
    for (const double count : row) chi_square += (count - expected) * (count - expected) / expected;
  }
  CHECK(std::abs(chi_square - 255.0) < 6.0 * std::sqrt(2.0 * 255.0));
}
