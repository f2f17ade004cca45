// The frequencies of a composition that are computed one by one, compared with sums in extended
// precision by the definition of the discrete Fourier transform.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "spectrum.hpp"
#include "support.hpp"

namespace accountants_pld_spectrum_test {

namespace {

using Long = std::complex<long double>;

constexpr double kAll = 1e18;

struct Case {
  std::string name;
  std::vector<pld::Factor> factors;
  std::size_t size;
};

pld::Factor factor(const std::vector<std::pair<std::int64_t, double>>& points,
                   std::uint64_t count) {
  pld::Factor result;
  result.count = count;
  double sum = 0.0;
  for (const auto& [index, weight] : points) sum += weight;
  for (const auto& [index, weight] : points) {
    result.index.push_back(index);
    result.weight.push_back(weight / sum);
  }
  return result;
}

pld::Factor bell(double mean, double deviation, std::int64_t stride, std::uint64_t count) {
  std::vector<std::pair<std::int64_t, double>> points;
  const auto end = static_cast<std::int64_t>(10.0 * deviation);
  for (std::int64_t j = -end; j <= end; j += stride) {
    const double z = static_cast<double>(j) / deviation;
    points.emplace_back(j + static_cast<std::int64_t>(mean), std::exp(-0.5 * z * z));
  }
  return factor(points, count);
}

/// A mass of 0.6 is at 0, so its transform does not decay, and the rest is smooth: all higher
/// frequencies are bounded by that mass plus the contribution of the rest.
pld::Factor peak_beside_bell(bool is_below, std::uint64_t count) {
  pld::Factor rest = bell(is_below ? 500.0 : -500.0, 40.0, 1, count);
  for (double& weight : rest.weight) weight *= 0.4;
  rest.index.insert(is_below ? rest.index.begin() : rest.index.end(), 0);
  rest.weight.insert(is_below ? rest.weight.begin() : rest.weight.end(), 0.6);
  return rest;
}

/// Some cases have points that are far apart. Their transforms rise again at intermediate
/// frequencies, where a bound on the frequencies that are not computed could be wrong.
std::vector<Case> cases() {
  std::vector<Case> all{
      {"a bell", {bell(3.0, 12.0, 1, 900)}, 3072},
      {"one step", {bell(3.0, 12.0, 1, 1)}, 1024},
      {"points that are 7 apart", {bell(0.0, 30.0, 7, 5000)}, 2048},
      {"two points", {factor({{0, 0.5}, {64, 0.5}}, 4000)}, 4096},
      {"two points, a number of which does not divide the window",
       {factor({{0, 0.6}, {61, 0.4}}, 100000)},
       4096},
      {"nearly all at zero", {factor({{0, 1.0}, {1, 1e-3}, {5, 1e-4}, {900, 1e-7}}, 100000)}, 2048},
      {"even and odd", {factor({{-2, 1.0}, {0, 2.0}, {2, 1.0}, {1, 1e-6}}, 3000)}, 1024},
      {"a peak below, which is not left out", {peak_beside_bell(true, 40)}, 2048},
      {"a peak above, which is not left out", {peak_beside_bell(false, 40)}, 2048},
      {"a peak below, which is", {peak_beside_bell(true, 4000)}, 2048},
      {"wrapped", {factor({{-1500, 0.25}, {0, 0.5}, {2048, 0.125}, {4095, 0.125}}, 12)}, 2048},
      {"several",
       {bell(1.0, 8.0, 1, 40), bell(-2.0, 20.0, 3, 100), factor({{0, 0.9}, {33, 0.1}}, 7)},
       3072},
      {"all at zero", {factor({{0, 1.0}}, 1000000)}, 1024},
      {"one point, of which rounding errors grow", {factor({{5, 1.0}}, 10'000'019)}, 1024},
      {"nothing", {pld::Factor{.index = {}, .weight = {}, .count = 3}}, 1024},
  };
  std::mt19937_64 engine(11);
  std::uniform_real_distribution<double> unit;
  for (int trial = 0; trial < 30; ++trial) {
    std::vector<std::pair<std::int64_t, double>> points;
    std::int64_t at = -static_cast<std::int64_t>(40.0 * unit(engine));
    const int count = 2 + static_cast<int>(40.0 * unit(engine));
    for (int j = 0; j < count; ++j) {
      points.emplace_back(at, std::exp(-8.0 * unit(engine)));
      at += 1 + (unit(engine) < 0.3 ? static_cast<std::int64_t>(30.0 * unit(engine)) : 0);
    }
    all.push_back({"random " + std::to_string(trial),
                   {factor(points, static_cast<std::uint64_t>(std::exp(12.0 * unit(engine))))},
                   trial % 2 == 0 ? 1024U : 1536U});
  }
  return all;
}

/// e^(2 pi i k / size), k reduced without rounding.
Long root(std::int64_t k, std::size_t size) {
  const auto whole = static_cast<std::int64_t>(size);
  const auto rest = static_cast<long double>(((k % whole) + whole) % whole);
  const long double angle =
      2.0L * std::numbers::pi_v<long double> * rest / static_cast<long double>(whole);
  return {std::cos(angle), std::sin(angle)};
}

Long power(Long base, std::uint64_t exponent) {
  Long result(1.0L, 0.0L);
  for (; exponent != 0; exponent >>= 1U, base *= base) {
    if (exponent & 1U) result *= base;
  }
  return result;
}

std::vector<Long> coefficients(const Case& one) {
  std::vector<Long> all(one.size, Long(1.0L, 0.0L));
  for (std::size_t f = 0; f < one.size; ++f) {
    for (const pld::Factor& factor : one.factors) {
      Long sum{};
      for (std::size_t j = 0; j < factor.index.size(); ++j) {
        sum += static_cast<long double>(factor.weight[j]) *
               root(-static_cast<std::int64_t>(f) * factor.index[j], one.size);
      }
      all[f] *= power(sum, factor.count);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("pld: frequencies that are left out are as small as said", "[accountant][pld]") {
  std::size_t left_out = 0;
  for (const Case& one : cases()) {
    INFO(one.name);
    const auto spectrum = pld::Spectrum::of(one.factors, one.size, kAll);
    REQUIRE(spectrum);
    const std::vector<std::int64_t> kept = spectrum->frequencies();
    const std::vector<Long> exact = coefficients(one);
    for (std::size_t f = 0; f <= one.size / 2; ++f) {
      if (std::binary_search(kept.begin(), kept.end(), static_cast<std::int64_t>(f))) continue;
      INFO("frequency " << f);
      CHECK(std::abs(exact[f]) <= static_cast<long double>(spectrum->left_out()));
      ++left_out;
    }
  }
  CHECK(left_out > 10000);
}

TEST_CASE("pld: sums behind a point, from the frequencies that matter", "[accountant][pld]") {
  for (const Case& one : cases()) {
    const auto spectrum = pld::Spectrum::of(one.factors, one.size, kAll);
    REQUIRE(spectrum);
    const std::vector<Long> exact = coefficients(one);
    long double steps = 0.0L;
    for (const pld::Factor& factor : one.factors) steps += static_cast<long double>(factor.count);
    std::vector<Long> roots;
    for (std::size_t k = 0; k < one.size; ++k)
      roots.push_back(root(static_cast<std::int64_t>(k), one.size));
    std::vector<long double> mass(one.size, 0.0L);
    for (std::size_t j = 0; j < one.size; ++j) {
      for (std::size_t f = 0; f < one.size; ++f)
        mass[j] += (exact[f] * roots[f * j % one.size]).real();
      mass[j] /= static_cast<long double>(one.size);
    }
    for (const auto& [tilt, step] :
         {std::pair{4.0, 1e-3}, {0.002, 1e-2}, {300.0, 1e-4}, {1.0, 0.5}}) {
      const pld::Window window{.size = one.size, .first = -377, .step = step, .tilt = tilt};
      for (const std::size_t k : {std::size_t{0}, std::size_t{1}, one.size / 3, one.size / 2 + 41,
                                  one.size - 2, one.size - 1}) {
        INFO(one.name << ", tilt " << tilt << ", step " << step << ", behind " << k);
        long double sum = 0.0L;
        long double squares = 0.0L;
        for (std::size_t j = k + 1; j < one.size; ++j) {
          const long double t = static_cast<long double>(j - k) * static_cast<long double>(step);
          const long double kernel =
              std::exp(-static_cast<long double>(tilt) * t) * -std::expm1(-t);
          sum += mass[(one.size * 4 + j - 377) % one.size] * kernel;
          squares += kernel * kernel;
        }
        const pld::Approximation got = spectrum->tail(window, k);
        const long double allowed =
            static_cast<long double>(got.error) +
            static_cast<long double>(spectrum->left_out()) * std::sqrt(squares) +
            (1e-16L + 1e-18L * steps) * std::sqrt(squares);  // the error of these sums
        CHECK(std::abs(static_cast<long double>(got.value) - sum) <= allowed);
        CHECK(got.error <= 1e-6);
      }
    }
  }
}

TEST_CASE("pld: what would take too long is not begun", "[accountant][pld]") {
  const std::vector<pld::Factor> one{bell(0.0, 30.0, 1, 1000)};
  CHECK_FALSE(pld::Spectrum::of(one, 4096, 1000.0));
  CHECK(pld::Spectrum::of(one, 4096, 1e6));
}

// The sum over a segment of thousands of points is a polynomial in the angle, with a bound on all
// errors.
TEST_CASE("pld: sums over thousands of points, by their moments", "[accountant][pld]") {
  pld::Factor factor;
  std::mt19937_64 engine(5);
  std::uniform_real_distribution<double> uneven(0.0, 2.0);
  long double total = 0.0L;
  for (std::int64_t j = 1; j <= 4000; ++j) {
    const double x = (static_cast<double>(j) - 2000.0) / 400.0;
    factor.index.push_back(j);
    factor.weight.push_back(std::exp(-0.5 * x * x) * uneven(engine));  // so that no errors cancel
    total += static_cast<long double>(factor.weight.back());
  }
  for (double& weight : factor.weight) weight /= static_cast<double>(total);
  const pld::Window window{.size = 1U << 14U, .first = 0, .step = 1e-3, .tilt = 0.5};
  const auto spectrum = pld::Spectrum::of({factor}, window.size, 1e9);
  REQUIRE(spectrum);
  for (const std::size_t k : {0U, 1500U, 2000U, 2700U}) {
    long double exact = 0.0L;
    for (std::size_t i = 0; i < factor.index.size(); ++i) {
      if (factor.index[i] <= static_cast<std::int64_t>(k)) continue;
      const long double t =
          static_cast<long double>(window.step) *
          static_cast<long double>(factor.index[i] - static_cast<std::int64_t>(k));
      exact -= static_cast<long double>(factor.weight[i]) * std::exp(-0.5L * t) * std::expm1(-t);
    }
    const pld::Approximation got = spectrum->tail(window, k);
    INFO("behind " << k << ": " << got.value << " +- " << got.error << ", exact " << exact);
    CHECK(std::fabs(static_cast<double>(static_cast<long double>(got.value) - exact)) <=
          got.error + 1e-15);
    CHECK(got.error <= 1e-11);
  }
}

}  // namespace accountants_pld_spectrum_test
