#include <cmath>
#include <vector>

#include "privgrad/core/random_key.hpp"
#include "support.hpp"

using privgrad::core::fill_normals;
using privgrad::core::make_random_source;
using privgrad::core::RandomKey;

namespace {

std::vector<double> normals(const RandomKey& key, std::uint64_t stream, std::uint64_t first,
                            std::size_t count) {
  std::vector<double> out(count);
  fill_normals(key, stream, first, out);
  return out;
}

double normal_tail(double x) { return 0.5 * std::erfc(x / std::sqrt(2.0)); }

}  // namespace

TEST_CASE("a key's bytes are ChaCha20", "[noise]") {
  // Keys are not readable, so the check is on structure: block b of a stream is where reading from
  // block 0 arrives after b blocks, whatever the length of the reads.
  const RandomKey key = RandomKey::from_seed(1);
  std::vector<std::uint8_t> whole(64 * 5), part(64 * 2);
  key.fill_bytes(7, 0, whole);
  key.fill_bytes(7, 3, part);
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 64 * 3));
}

TEST_CASE("noise is addressed by key, stream and position, not by history", "[noise]") {
  const RandomKey key = RandomKey::from_seed(1);
  const auto all = normals(key, 3, 0, 4000);
  CHECK(normals(key, 3, 0, 4000) == all);
  const auto later = normals(key, 3, 1600, 100);
  CHECK(std::equal(later.begin(), later.end(), all.begin() + 1600));
  CHECK(normals(key, 4, 0, 4000) != all);
  CHECK(normals(RandomKey::from_seed(2), 3, 0, 4000) != all);
  CHECK(normals(key.derive("a"), 3, 0, 4000) != normals(key.derive("b"), 3, 0, 4000));
  CHECK(normals(key.derive("a"), 3, 0, 4000) == normals(key.derive("a"), 3, 0, 4000));
}

TEST_CASE("keys of the operating system differ", "[noise]") {
  CHECK(normals(RandomKey::from_operating_system(), 0, 0, 8) !=
        normals(RandomKey::from_operating_system(), 0, 0, 8));
}

TEST_CASE("noise has the moments and the distribution of a standard normal", "[noise]") {
  // n = 2^20 draws, seed fixed. Bounds at 6 standard errors of each statistic: false alarms below
  // 1e-8.
  constexpr std::size_t kCount = 1 << 20;
  const auto draws = normals(RandomKey::from_seed(20), 0, 0, kCount);
  double sum = 0, squares = 0, cubes = 0, fourths = 0, neighbours = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double x = draws[i];
    sum += x;
    squares += x * x;
    cubes += x * x * x;
    fourths += x * x * x * x;
    if (i > 0) neighbours += x * draws[i - 1];
  }
  const double n = kCount;
  const double error = 6.0 / std::sqrt(n);
  CHECK(std::abs(sum / n) < error);
  CHECK(std::abs(squares / n - 1.0) < error * std::sqrt(2.0));
  CHECK(std::abs(cubes / n) < error * std::sqrt(15.0));
  CHECK(std::abs(fourths / n - 3.0) < error * std::sqrt(96.0));
  CHECK(std::abs(neighbours / n) < error);

  // Kolmogorov-Smirnov at 1e-9 (Massart): sqrt(ln(2/1e-9)/(2n)).
  auto sorted = draws;
  std::sort(sorted.begin(), sorted.end());
  double distance = 0.0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double expected = 1.0 - normal_tail(sorted[i]);
    distance = std::max({distance, std::abs(expected - static_cast<double>(i) / n),
                         std::abs(expected - static_cast<double>(i + 1) / n)});
  }
  CHECK(distance < std::sqrt(std::log(2.0 / 1e-9) / (2.0 * n)));
}

TEST_CASE("noise has tails: as many draws beyond 4 sigma as there should be", "[noise]") {
  // 2^22 draws, two-sided P(|x| > 4) = 6.33e-5, expected 265.7; Poisson, 6 standard deviations =
  // 98: false alarm below 1e-8.
  constexpr std::size_t kCount = std::size_t{1} << 22;
  const auto draws = normals(RandomKey::from_seed(21), 0, 0, kCount);
  const auto beyond =
      std::count_if(draws.begin(), draws.end(), [](double x) { return std::abs(x) > 4.0; });
  const double expected = 2.0 * normal_tail(4.0) * static_cast<double>(kCount);
  CHECK(std::abs(static_cast<double>(beyond) - expected) < 6.0 * std::sqrt(expected));
}

TEST_CASE("different streams are uncorrelated", "[noise]") {
  // 2^18 products, standard error 1/512; 6 of them: false alarm below 1e-8.
  constexpr std::size_t kCount = 1 << 18;
  const RandomKey key = RandomKey::from_seed(22);
  const auto a = normals(key, 0, 0, kCount), b = normals(key, 1, 0, kCount);
  double product = 0.0;
  for (std::size_t i = 0; i < kCount; ++i) product += a[i] * b[i];
  CHECK(std::abs(product / static_cast<double>(kCount)) < 6.0 / 512.0);
}

TEST_CASE("uniform_below has no modulo bias and stays below", "[noise]") {
  // A bound just above 2^63 makes modulo favour small results by 2 to 1; half must be below bound
  // / 2.
  const auto stream = make_random_source(RandomKey::from_seed(3))->stream(0);
  constexpr std::uint64_t kBound = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 62);
  int low = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t draw = stream->uniform_below(kBound);
    REQUIRE(draw < kBound);
    low += draw < kBound / 2;
  }
  // Binomial, 6 standard deviations = 424: false alarm below 1e-8. Modulo bias would give 2/3.
  CHECK(std::abs(low - kDraws / 2) < 424);
  CHECK(stream->uniform_below(1) == 0);
}

TEST_CASE("streams of one source: same index, same numbers", "[noise]") {
  const auto source = make_random_source(RandomKey::from_seed(4));
  std::vector<float> a(100), b(100), c(100);
  source->stream(5)->fill_normal(a);
  source->stream(5)->fill_normal(b);
  source->stream(6)->fill_normal(c);
  CHECK(a == b);
  CHECK(a != c);
}
