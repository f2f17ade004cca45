#include "privgrad/trust/clip_factors.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "fake_clipping.hpp"
#include "support.hpp"
#include "trials.hpp"

using namespace privgrad;
using core::clip_factors;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Gradient = std::vector<std::vector<float>>;  // one vector per group

/// Returns the core's argument for a rule: squared norms that are certainly not too small.
std::vector<double> squared_norms(const Gradient& gradient) {
  std::vector<double> squares;
  for (const auto& group : gradient) {
    long double sum = 0.0L;
    for (const float x : group) sum += static_cast<long double>(x) * x;
    squares.push_back(std::nextafter(static_cast<double>(sum), kInfinity));
  }
  return squares;
}

/// Measures the norm in long double (64-bit mantissa), with the products as the sum computes them.
long double contribution_norm(const Gradient& gradient, const std::vector<double>& factors) {
  long double squares = 0.0L;
  for (std::size_t group = 0; group < gradient.size(); ++group) {
    for (const float x : gradient[group]) {
      const double product = factors[group] * static_cast<double>(x);
      squares += static_cast<long double>(product) * product;
    }
  }
  return std::sqrt(squares);
}

struct Clipped {
  std::vector<double> factors;
  bool unclipped = false;
};

Clipped clipped(const Clipping& rule, const std::vector<double>& squares, double clip_norm) {
  const std::vector<ParameterGroup> groups(squares.size());
  Clipped result{std::vector<double>(squares.size(), 7.0), false};
  result.unclipped = clip_factors({.rule = rule, .groups = groups, .clip_norm = clip_norm}, squares,
                                  result.factors);
  return result;
}

Gradient random_gradient(std::mt19937& random) {
  std::normal_distribution<float> normal;
  Gradient gradient(1 + random() % 6);
  for (auto& group : gradient) {
    group.resize(1 + random() % 60);
    const float scale = std::pow(10.0f, static_cast<float>(random() % 60) - 30.0f);
    for (float& x : group) x = normal(random) * scale;
  }
  return gradient;
}

}  // namespace

TEST_CASE("a contribution never has a norm above the bound, whatever the rule says",
          "[clip][privacy][long]") {
  // Rows of many shapes and scales, bounds of all sizes, and bounds equal to the gradient's own
  // norm up to the last bits, where rounding decides.
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform;
  const auto& flat = flat_clipping();
  const ScriptedClipping none(
      [](auto, double, auto factors) { std::fill(factors.begin(), factors.end(), 1.0); });
  const ScriptedClipping huge(
      [](auto, double, auto factors) { std::fill(factors.begin(), factors.end(), 1e200); });
  const ScriptedClipping wild([&](auto, double, auto factors) {
    constexpr double kOdd[] = {-1.0, kInfinity, -kInfinity, 1e308, 0.0, 5e-324};
    for (double& f : factors) {
      const std::size_t kind = random() % 12;
      f = kind < 6   ? kOdd[kind]
          : kind < 7 ? std::nan("")
                     : std::pow(10.0, 40.0 * uniform(random) - 20.0);
    }
  });
  const ScriptedClipping stretch([](auto squares, double clip_norm, auto factors) {
    for (std::size_t g = 0; g < factors.size(); ++g) {
      factors[g] = clip_norm / std::sqrt(squares[g]);  // each group alone uses the whole bound
    }
  });
  const int count = trials(30'000, "gradients");
  for (int trial = 0; trial < count; ++trial) {
    const Gradient gradient = random_gradient(random);
    const auto squares = squared_norms(gradient);
    const std::vector<double> ones(gradient.size(), 1.0);
    const auto own_norm = static_cast<double>(contribution_norm(gradient, ones));
    double bound = own_norm;
    if (trial % 3 == 0) bound = std::pow(10.0, static_cast<double>(random() % 20) - 10.0);
    if (trial % 3 == 1) bound = std::nextafter(own_norm, 0.0);
    if (bound == 0.0) continue;
    for (const Clipping* rule :
         {static_cast<const Clipping*>(&flat), static_cast<const Clipping*>(&none),
          static_cast<const Clipping*>(&huge), static_cast<const Clipping*>(&wild),
          static_cast<const Clipping*>(&stretch)}) {
      const auto factors = clipped(*rule, squares, bound).factors;
      for (const double factor : factors) REQUIRE((factor >= 0.0 && std::isfinite(factor)));
      REQUIRE(contribution_norm(gradient, factors) <= bound);
      // The contribution is not needlessly small either, if the rule requests the bound or more.
      if (rule == &flat || rule == &none) {
        REQUIRE((factors == ones || contribution_norm(gradient, factors) >= bound * (1 - 1e-12)));
      }
      if (rule == &stretch && own_norm > 1e-290) {
        REQUIRE(contribution_norm(gradient, factors) >= bound * (1 - 1e-12));
      }
    }
  }
}

TEST_CASE("a squared norm is never below the true one", "[clip][privacy][long]") {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  const int count = trials(10'000, "rows");
  for (int trial = 0; trial < count; ++trial) {
    std::vector<float> row(1 + random() % 300);
    const float scale = std::pow(10.0f, static_cast<float>(random() % 60) - 30.0f);
    long double exact = 0.0L;
    for (float& x : row) {
      x = normal(random) * scale;
      exact += static_cast<long double>(x) * x;
    }
    const double found = core::squared_norm_at_most(row);
    REQUIRE(found >= exact);
    REQUIRE(found <= exact * (1.0L + (static_cast<double>(row.size()) + 8.0L) * 0x1p-51L));
  }
  CHECK(core::squared_norm_at_most({}) == 0.0);
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(core::squared_norm_at_most(std::vector<float>{1.0f, -infinity}) == kInfinity);
  CHECK(std::isnan(core::squared_norm_at_most(std::vector<float>{1.0f, std::nanf("")})));
}

TEST_CASE("a vector that is made no longer than a bound is never above it, and hardly below",
          "[clip][privacy][long]") {
  std::mt19937 random(9);
  std::normal_distribution<double> normal;
  const auto factor_of = [](const std::vector<double>& vector, double bound) {
    core::LengthBound length(bound);
    const std::size_t half = vector.size() / 2;  // in two pieces
    length.add(half, [&](std::size_t i) { return vector[i]; });
    length.add(vector.size() - half, [&](std::size_t i) { return vector[half + i]; });
    return length.factor();
  };
  const int count = trials(10'000, "vectors");
  for (int trial = 0; trial < count; ++trial) {
    std::vector<double> vector(1 + random() % 300);
    for (double& x : vector) x = normal(random) * std::ldexp(1.0, static_cast<int>(random() % 20));
    const auto scaled = static_cast<double>(random() % 2000) - 1000.0;
    const double bound = std::pow(10.0, scaled / 50.0) * (1.0 + 0.1 * normal(random));
    for (double& x : vector) x *= bound;  // usually longer than the bound
    const double factor = factor_of(vector, bound);
    long double squares = 0.0L;
    for (const double x : vector) {
      const long double product = factor * x;
      squares += product / bound * (product / bound);
    }
    REQUIRE(std::sqrt(squares) <= 1.0L);
    if (factor < 1.0)
      REQUIRE(std::sqrt(squares) >= 1.0L - (static_cast<double>(vector.size()) + 12.0L) * 0x1p-51L);
  }
  CHECK(factor_of({3.0, 4.0}, 5.001) == 1.0);  // within the bound: unchanged
  CHECK(factor_of({3.0, 4.0}, 0.0) == 0.0);
  CHECK(factor_of({kInfinity, 4.0}, 5.0) == 0.0);
  CHECK(factor_of({std::nan(""), 4.0}, 5.0) == 0.0);
  CHECK(factor_of({3.0, 4.0}, kInfinity) == 0.0);
}

TEST_CASE("large gradients keep the bound: a million coordinates", "[clip][privacy]") {
  const Gradient gradient{std::vector<float>(1'000'000, 0.1f)};  // here float sums drift by 2.6e-4
  const double squares = core::squared_norm_at_most(gradient[0]);
  const auto factors = clipped(flat_clipping(), {squares}, 1.0).factors;
  CHECK(contribution_norm(gradient, factors) <= 1.0L);
}

TEST_CASE("a gradient within the bound is left alone, bit for bit", "[clip]") {
  const auto& flat = flat_clipping();
  CHECK(clipped(flat, {0.09, 0.16}, 0.6).factors == std::vector<double>{1.0, 1.0});
  CHECK(clipped(flat, {0.0, 0.0}, 1e-300).factors == std::vector<double>{1.0, 1.0});
  CHECK(clipped(flat, {1e-90}, 1.0).factors == std::vector<double>{1.0});
}

TEST_CASE("an example counts as unclipped up to its clip norm, whatever the rule", "[clip]") {
  const ScriptedClipping nothing([](auto, double, auto) {});
  for (const Clipping* rule :
       {static_cast<const Clipping*>(&flat_clipping()), static_cast<const Clipping*>(&nothing)}) {
    CHECK(clipped(*rule, {9.0, 16.0}, 5.0).unclipped);
    CHECK_FALSE(clipped(*rule, {9.0, 16.0}, std::nextafter(5.0, 0.0)).unclipped);
    CHECK_FALSE(clipped(*rule, {9.0, kInfinity}, 1e300).unclipped);
  }
}

TEST_CASE("an example that is not finite contributes nothing, and no rule sees it",
          "[clip][privacy]") {
  const ScriptedClipping rule([](auto, double, auto) { FAIL("the rule was asked"); });
  for (const double odd : {std::nan(""), kInfinity}) {
    CHECK(clipped(rule, {1.0, odd, 2.0}, 1.0).factors == std::vector<double>(3, 0.0));
  }
}

TEST_CASE("a factor that a rule forgets to write is 0", "[clip][privacy]") {
  const ScriptedClipping first([](auto, double, auto factors) { factors[0] = 0.5; });
  CHECK(clipped(first, {1.0, 1.0}, 1.0).factors == std::vector<double>{0.5, 0.0});
  const ScriptedClipping second([](auto, double, auto factors) { factors[1] = 0.5; });
  CHECK(clipped(second, {1.0, 1.0}, 1.0).factors == std::vector<double>{0.0, 0.5});
}
