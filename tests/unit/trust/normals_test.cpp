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

using privgrad::core::CounterCipher;
using privgrad::core::kNormalsPerChunk;
using privgrad::core::make_executor;
using privgrad::core::NormalStream;
using privgrad::core::NormalWords;
using privgrad::core::RandomKey;
using privgrad::core::RoundedGaussianStream;

namespace {

std::vector<float> normals(const RandomKey& key, std::uint64_t stream, std::uint64_t first,
                           std::size_t count) {
  std::vector<float> out(count);
  NormalStream(key, stream).fill(first, out);
  return out;
}

/// Returns P(X > x), with a small relative error for x > 0.
double normal_tail(double x) { return 0.5 * std::erfc(x / std::numbers::sqrt2); }

/// Counts of draws in equal classes of [-8, 8], and beyond.
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
  // Keys are not readable, so this checks the structure; the known answers below, from an
  // independent implementation, determine the cipher.
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
  cipher.read(7, 9, beginning);  // ends within a block: the next read must not continue there
  cipher.read(7, 9, part);
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 16 * 9));
}

TEST_CASE("noise is addressed by key, stream and position, not by history", "[noise]") {
  const RandomKey key = RandomKey::from_seed(1);
  const auto all = normals(key, 3, 0, 10'000);
  NormalStream stream(key, 3);
  // Reads backwards, across the boundaries of chunks, single elements, and whole chunks.
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

TEST_CASE("a draw is the exact noise of its place, to 2^-25 and a rounding of float32", "[noise]") {
  // The same zeta in steps of 2^-50; RoundedGaussianStream defines them to the last bit, and its
  // tests check this.
  const RandomKey key = RandomKey::from_seed(20);
  constexpr std::size_t kCount = 20'000;
  const std::vector<std::int64_t> nothing(kCount);
  std::vector<std::int64_t> fine(kCount);
  RoundedGaussianStream(key.derive("floating point"), 7).release(500, 0x1p50, 0, nothing, fine);
  const auto drawn = normals(key, 7, 500, kCount);
  double worst = 0.0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double exact = std::ldexp(static_cast<double>(fine[i]), -50);
    const double allowed = 0x1p-25 + 0x1p-24 * std::abs(exact);
    worst = std::max(worst, std::abs(static_cast<double>(drawn[i]) - exact) / allowed);
  }
  CHECK(worst <= 1.0 + 1e-6);
  CHECK(worst > 0.5);  // some draw is rounded
}

TEST_CASE("floating-point and exact releases have no noise in common", "[noise][privacy]") {
  // Under one key, every stream of the first kind has a correlation with the same stream of the
  // second kind, over 2^16 elements, within 6 standard errors of 0. With common noise it would be
  // 1.
  const RandomKey key = RandomKey::from_seed(26);
  constexpr std::size_t kCount = std::size_t{1} << 16;
  const std::vector<std::int64_t> nothing(kCount);
  std::vector<std::int64_t> exact(kCount);
  for (const std::uint64_t stream : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{70}}) {
    RoundedGaussianStream(key, stream).release(0, 0x1p10, 0, nothing, exact);
    const auto drawn = normals(key, stream, 0, kCount);
    double products = 0.0;
    for (std::size_t i = 0; i < kCount; ++i)
      products += static_cast<double>(drawn[i]) * std::ldexp(static_cast<double>(exact[i]), -10);
    CHECK(std::abs(products) < 6.0 * std::sqrt(static_cast<double>(kCount)));
  }
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

TEST_CASE("noise has the moments and the distribution of a standard normal", "[noise]") {
  // n = 1024 * 10^4 draws of ten streams, with a fixed seed. Each moment within 6 standard errors:
  // false alarms below 1e-8.
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

  // Kolmogorov-Smirnov at the 1025 edges of classes: the distance is at most the one over all x, so
  // Massart's bound holds: exceeded with probability below 1e-9. Chi-square over the classes with
  // an expected count of at least 100, within 6 standard deviations: false alarm below 1e-7.
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
  // 2^26 draws, two-sided: 4251 expected beyond 4, 38.5 beyond 5, 0.13 beyond 6. Poisson; the
  // bounds are 6 standard deviations and (for the last, a count of at most 4) 2e-7.
  constexpr std::size_t kCount = std::size_t{1} << 18;
  Histogram histogram;
  std::vector<float> draws(kCount);
  for (std::uint64_t stream = 0; stream < 256; ++stream) {
    NormalStream(RandomKey::from_seed(21), stream).fill(0, draws);
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
  // 17 expected in total, one minute on one core. Poisson: counts outside [3, 40], or above 8 of
  // the 1.7 expected in a tenth, have a probability below 3e-4, and the seeds are fixed.
  constexpr std::size_t kCount = std::size_t{1} << 18;
  std::uint64_t beyond = 0;
  std::vector<float> draws(kCount);
  const int count = trials(1 << 15, "streams of 2^18 draws");
  for (int stream = 0; stream < count; ++stream) {
    NormalStream(RandomKey::from_seed(23), static_cast<std::uint64_t>(stream)).fill(0, draws);
    for (const double x : draws) beyond += std::abs(x) > 6.0;
  }
  const double expected = 2.0 * normal_tail(6.0) * count * static_cast<double>(kCount);
  CHECK(static_cast<double>(beyond) > expected - 3.5 * std::sqrt(expected));
  CHECK(static_cast<double>(beyond) < expected + 5.7 * std::sqrt(expected));
}

TEST_CASE("noise is uncorrelated over streams, keys and positions", "[noise]") {
  // Correlations of draws and of their squares over 2^20 products each, at 6 standard errors (1 and
  // 2 per product of unit variance): false alarms below 1e-7 in total. Lags are: neighbours, the
  // two elements of a pair, chunks; and streams that differ in one bit.
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
  // Pairs in 16 x 16 classes, with edges at the 16-quantiles of the distribution: chi-square with
  // 255 degrees of freedom within 6 standard deviations: false alarm below 1e-7. 2^20 pairs.
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
