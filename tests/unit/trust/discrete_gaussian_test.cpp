#include "privgrad/trust/discrete_gaussian.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <variant>
#include <vector>

#include "privgrad/error.hpp"
#include "support.hpp"

using privgrad::core::DiscreteGaussianStream;
using privgrad::core::kDiscreteChunk;
using privgrad::core::kLargestDiscreteSigma;
using privgrad::core::RandomKey;
using privgrad::core::RandomWords;

namespace {

constexpr std::size_t kDraws = std::size_t{1} << 20;

std::vector<std::int64_t> draws(const RandomKey& key, std::uint64_t stream, std::uint64_t sigma,
                                std::size_t count = kDraws) {
  std::vector<std::int64_t> out(count);
  DiscreteGaussianStream source(key, stream, sigma);
  for (std::size_t begin = 0; begin < count; begin += kDiscreteChunk) {
    source.fill(begin / kDiscreteChunk,
                std::span(out).subspan(begin, std::min(kDiscreteChunk, count - begin)));
  }
  return out;
}

/// Returns the probability of each integer up to `most` on either side, from the definition.
std::map<std::int64_t, double> probabilities(double sigma, std::int64_t most) {
  std::map<std::int64_t, double> p;
  double sum = 0.0;
  for (std::int64_t x = -most; x <= most; ++x) {
    const double ratio = static_cast<double>(x) / sigma;
    sum += p[x] = std::exp(-0.5 * ratio * ratio);
  }
  for (auto& [x, value] : p) value /= sum;
  return p;
}

/// Returns Pearson's statistic of observed and expected counts, of equal length.
double chi_square(const std::vector<double>& counts, const std::vector<double>& expected) {
  double sum = 0.0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
  }
  return sum;
}

/// Returns a limit that a chi-square variable with k degrees of freedom exceeds with probability at
/// most 1e-9 (Laurent and Massart 2000, Lemma 1).
double limit(std::size_t degrees) {
  const double k = static_cast<double>(degrees), x = std::log(1e9);
  return k + 2.0 * std::sqrt(k * x) + 2.0 * x;
}

double square_of(std::int64_t x) { return static_cast<double>(x) * static_cast<double>(x); }

}  // namespace

TEST_CASE("discrete normals have the probabilities of the definition", "[noise][discrete]") {
  // 2^20 draws for each sigma, one class per integer with an expected count of at least 20, one for
  // all others. Fixed seed; false alarm: 1e-9 each.
  for (const std::uint64_t sigma : {1u, 2u, 3u, 7u, 40u}) {
    INFO("sigma " << sigma);
    const auto p = probabilities(static_cast<double>(sigma), static_cast<std::int64_t>(12 * sigma));
    std::map<std::int64_t, double> seen;
    for (const std::int64_t x : draws(RandomKey::from_seed(1), sigma, sigma)) seen[x] += 1.0;
    std::vector<double> counts, expected;
    double other_count = kDraws, other_expected = kDraws;
    for (const auto& [x, probability] : p) {
      if (probability * kDraws < 20.0) continue;
      counts.push_back(seen[x]);
      expected.push_back(probability * kDraws);
      other_count -= counts.back();
      other_expected -= expected.back();
    }
    CHECK(counts.size() > 6 * sigma);
    CHECK(std::abs(other_count - other_expected) < 6.0 * std::sqrt(other_expected) + 6.0);
    CHECK(chi_square(counts, expected) < limit(counts.size()));
  }
}

TEST_CASE("discrete normals of a fine grid have a normal's shape", "[noise][discrete]") {
  // Classes of sigma / 8 out to 4 sigma. The sum over a class's integers and the integral between
  // its edges, shifted by half an integer, differ by 1e-15. False alarm: 1e-9 each.
  constexpr int kCells = 32;
  for (const std::uint64_t sigma : {std::uint64_t{1} << 12, (std::uint64_t{1} << 24) + 5,
                                    std::uint64_t{1} << 40, kLargestDiscreteSigma}) {
    INFO("sigma " << sigma);
    std::vector<double> counts(2 * kCells + 2), expected;
    const auto width = static_cast<std::int64_t>(sigma / 8);
    for (const std::int64_t x : draws(RandomKey::from_seed(2), 0, sigma)) {
      const std::int64_t cell = std::min<std::int64_t>(std::abs(x) / width, kCells);
      counts[static_cast<std::size_t>(2 * cell + (x < 0 ? 1 : 0))] += 1.0;
    }
    const auto beyond = [&](std::int64_t edge) {
      return 0.5 * std::erfc((static_cast<double>(edge) - 0.5) / static_cast<double>(sigma) /
                             std::numbers::sqrt2);
    };
    for (std::int64_t cell = 0; cell <= kCells; ++cell) {
      for (const bool negative : {false, true}) {
        // |x| in [cell width, (cell + 1) width); zero counts as positive.
        const std::int64_t first = cell == 0 && negative ? 1 : cell * width;
        const double outside = cell == kCells ? 0.0 : beyond((cell + 1) * width);
        expected.push_back(kDraws * (beyond(first) - outside));
      }
    }
    CHECK_THAT(std::accumulate(expected.begin(), expected.end(), 0.0), WithinRel(kDraws, 1e-12));
    CHECK(chi_square(counts, expected) < limit(counts.size() - 1));
  }
}

TEST_CASE("discrete normals have the variance of the definition, below sigma^2",
          "[noise][discrete]") {
  // Six standard errors, which are at most sqrt(2 / n) of sigma^2: false alarm below 1e-8.
  for (const std::uint64_t sigma : {1u, 2u, 1000u}) {
    const double s = static_cast<double>(sigma);
    double variance = 0.0;
    for (const auto& [x, p] : probabilities(s, static_cast<std::int64_t>(12 * sigma))) {
      variance += p * square_of(x);
    }
    CHECK(variance <= s * s * (1.0 + 1e-12));  // as Canonne, Kamath and Steinke prove
    double sum = 0.0, squares = 0.0;
    for (const std::int64_t x : draws(RandomKey::from_seed(3), 9, sigma)) {
      sum += static_cast<double>(x);
      squares += square_of(x);
    }
    CHECK(std::abs(sum) < 6.0 * s * std::sqrt(double{kDraws}));
    CHECK_THAT(squares / kDraws, WithinRel(variance, 6.0 * std::sqrt(2.0 / kDraws)));
  }
}

TEST_CASE("a discrete normal has an address: key, stream, position", "[noise][discrete]") {
  const RandomKey key = RandomKey::from_seed(4);
  const auto all = draws(key, 3, 1000, 8 * kDiscreteChunk);
  DiscreteGaussianStream source(key, 3, 1000);
  std::vector<std::int64_t> part(100);
  for (const std::uint64_t chunk : {5u, 0u, 7u, 5u}) {  // in any order, and not all of them
    source.fill(chunk, part);
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(chunk * kDiscreteChunk);
    CHECK(part == std::vector<std::int64_t>(from, from + 100));
  }
  CHECK(draws(key, 4, 1000, 2000) != draws(key, 3, 1000, 2000));
  CHECK(draws(key.derive("other"), 3, 1000, 2000) != draws(key, 3, 1000, 2000));
  source.fill(std::uint64_t{1} << 53, part);
  CHECK(part != std::vector<std::int64_t>(all.begin(), all.begin() + 100));
}

TEST_CASE("discrete normals are uncorrelated over streams, keys and positions",
          "[noise][discrete]") {
  // Correlations of draws and of their squares over 2^20 products, at 6 standard errors.
  constexpr std::uint64_t kSigma = 1000;
  const RandomKey key = RandomKey::from_seed(5);
  const auto base = draws(key, 0, kSigma, kDraws + 2048);
  const auto uncorrelated = [&](std::span<const std::int64_t> other) {
    double products = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < kDraws; ++i) {
      const double a = static_cast<double>(base[i]) / kSigma;
      const double b = static_cast<double>(other[i]) / kSigma;
      products += a * b;
      squares += (a * a - 1.0) * (b * b - 1.0);
    }
    CHECK(std::abs(products) < 6.0 * std::sqrt(double{kDraws}));
    CHECK(std::abs(squares) < 12.0 * std::sqrt(double{kDraws}));
  };
  for (const std::size_t lag : {1u, 2u, 1024u, 2048u}) uncorrelated(std::span(base).subspan(lag));
  uncorrelated(draws(key, 1, kSigma));
  uncorrelated(draws(key, std::uint64_t{1} << 63, kSigma));
  uncorrelated(draws(key.derive("other"), 0, kSigma));
}

TEST_CASE("uniform integers are exactly uniform for bounds that do not divide 2^64",
          "[noise][discrete]") {
  // For 3 * 2^62, a product without rejection gives multiples of 3 twice as often as the others.
  // 2^18 draws, chi-square with two degrees of freedom: false alarm 1e-9 each.
  constexpr std::size_t kCount = std::size_t{1} << 18;
  RandomWords words(RandomKey::from_seed(6));
  for (const std::uint64_t bound : {std::uint64_t{3}, std::uint64_t{3} << 62}) {
    words.start(bound);
    std::vector<double> remainders(3), thirds(3);
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::uint64_t x = words.below(bound);
      remainders[x % 3] += 1.0;
      thirds.at(x / (bound / 3)) += 1.0;
    }
    const std::vector<double> expected(3, kCount / 3.0);
    CHECK(chi_square(remainders, expected) < limit(2));
    CHECK(chi_square(thirds, expected) < limit(2));
  }
}

TEST_CASE("a sigma without a distribution is refused", "[noise][discrete]") {
  const RandomKey key = RandomKey::from_seed(7);
  for (const std::uint64_t sigma : {std::uint64_t{0}, kLargestDiscreteSigma + 1}) {
    CHECK_THROWS_AS(DiscreteGaussianStream(key, 0, sigma), privgrad::ConfigError);
  }
}

TEST_CASE("discrete noise in cells is never less than promised", "[discrete][privacy]") {
  using privgrad::core::sigma_in_cells;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 28;
  CHECK(sigma_in_cells(1.0, 1024) == 1024);
  CHECK(sigma_in_cells(1.0 + 0x1p-52, 1024) == 1025);
  CHECK(sigma_in_cells(1.2345, 1000) == 1235);
  // The double 0.1 is slightly more than a tenth, so ten times it is more than 1, although the
  // product in double is 1.
  CHECK(sigma_in_cells(0.1, 10) == 2);
  CHECK(sigma_in_cells(1e-300, kMost) == 1);
  CHECK_THROWS_WITH(sigma_in_cells(0x1p25, kMost), ContainsSubstring("2^52"));
  CHECK_THROWS_AS(sigma_in_cells(std::numeric_limits<double>::infinity(), 1),
                  privgrad::ConfigError);
}

TEST_CASE("a release with discrete noise is charged as zCDP", "[discrete][privacy]") {
  using privgrad::Adjacency;
  const auto rho = [](std::uint64_t levels, std::uint64_t sigma, Adjacency adjacency) {
    const auto event = privgrad::core::grid_release_event(levels, sigma, adjacency);
    return std::get<privgrad::ZcdpEvent>(event.kind()).rho;
  };
  // rho is (levels / sigma)^2 / 2, and four times as much if one example replaces another.
  for (const Adjacency adjacency : {Adjacency::zero_out, Adjacency::add_or_remove_one}) {
    CHECK_THAT(rho(1024, 2048, adjacency), WithinRel(0.125, 1e-15));
    CHECK(rho(1024, 2048, adjacency) >= 0.125);
  }
  CHECK_THAT(rho(1024, 2048, Adjacency::replace_one), WithinRel(0.5, 1e-15));
  // Never below the exact quotient: 2 rho sigma^2 >= levels^2, in long double.
  for (std::uint64_t sigma = 1; sigma < 1'000'000; sigma = sigma * 3 / 2 + 1) {
    const long double twice = 2.0L * rho(4097, sigma, Adjacency::zero_out);
    const long double s = static_cast<long double>(sigma);
    CHECK(twice * s * s >= 4097.0L * 4097.0L);
    CHECK(twice * s * s <= 4097.0L * 4097.0L * (1.0L + 1e-14L));
  }
}
