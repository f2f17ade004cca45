#include "privgrad/trust/joint_release.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "fake_accountant.hpp"
#include "fake_aggregator.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "support.hpp"
#include "trials.hpp"
#include "trust_support.hpp"

using namespace privgrad;
using core::count_share;
using core::gradient_share;
using core::Mechanism;
using core::take_apart;

namespace {

/// Returns the joint vector itself, by a mechanism without noise and with divisor 1.
Released without_noise(Bounded sum) {
  const auto aggregator = independent_noise(1.0);
  const auto executor = core::make_executor(1);
  Mechanism mechanism(aggregator, core::RandomKey::from_seed(0), *executor);
  return mechanism.release_without_noise(std::move(sum), 1.0);
}

double norm_of(std::span<const float> values) {
  double squares = 0.0;
  for (const double x : values) squares += x * x;
  return std::sqrt(squares);
}

}  // namespace

TEST_CASE("the shares of a joint release fill the bound and never more", "[joint][privacy][long]") {
  std::mt19937_64 random(5);
  const int count = trials(20'000, "pairs of noise multipliers");
  for (int trial = 0; trial < count; ++trial) {
    const double z = std::exp(8.0 * static_cast<double>(random() >> 11) * 0x1p-53 - 4.0);
    const double sigma_b =
        z * (0.5000001 + 50.0 * std::pow(static_cast<double>(random() >> 11) * 0x1p-53, 4.0));
    const double s = count_share(z, sigma_b);
    const long double a = gradient_share(s);
    REQUIRE(a * a + static_cast<long double>(s) * s <= 1.0L);
    REQUIRE(a * a + static_cast<long double>(s) * s >= 1.0L - 1e-14L);
    // The split of Andrew et al. 2021, Theorem 1: z_delta = (z^-2 - (2 sigma_b)^-2)^(-1/2).
    const long double z_delta =
        1.0L / std::sqrt(1.0L / (static_cast<long double>(z) * z) -
                         1.0L / (4.0L * static_cast<long double>(sigma_b) * sigma_b));
    // The share is rounded down, by less than a cell, 2^-26, so the count has no less noise.
    const double cell = 0x1p-26;
    const double of_square = 2.0 * cell / static_cast<double>(a * a);
    REQUIRE_THAT(z / static_cast<double>(a),
                 WithinRel(static_cast<double>(z_delta), 1e-9 + of_square));
    REQUIRE(z / (2.0 * s) >= sigma_b * (1.0 - 1e-14));
    REQUIRE(z / (2.0 * (s + cell)) <= sigma_b * (1.0 + 1e-14));
  }
}

TEST_CASE("a count that would cost more than both may is refused", "[joint][privacy]") {
  for (const double noise : {0.5, 0.4, 0.0, -1.0, std::nan("")}) {
    CHECK_THROWS_AS(count_share(1.0, noise), ConfigError);
  }
  CHECK_THROWS_WITH(count_share(1.0, 0.25), ContainsSubstring("more than half"));
  CHECK(count_share(1.0, 0.51) < 1.0);
}

TEST_CASE("one example moves the joint vector by the bound at most, and by no less if clipped",
          "[joint][privacy]") {
  const EchoProgram program(3);
  const std::vector<std::uint32_t> alone{0};
  for (const double share : {0.04, 0.5, 0.95}) {
    for (const float size : {1e-3f, 0.99f, 1.01f, 1e6f}) {
      const Dataset data = make_data(3, {0.6f * size, 0.0f, 0.8f * size}, {0.0f});
      Bounded sum = clipped_sum(program, data, alone, 1.0, serial, share);
      CHECK(sum.l2_bound() == 1.0);
      CHECK(sum.size() == 4);
      const Released joint = without_noise(std::move(sum));
      // The conversion to floats has relative rounding errors of 6e-8.
      CHECK(norm_of(joint.values()) <= 1.0 + 1e-7);
      if (size > 1.0f) CHECK(norm_of(joint.values()) >= 1.0 - 1e-6);
      CHECK_THAT(joint.values()[3], WithinRel(size < 1.0f ? share : -share, 1e-6));
    }
  }
}

TEST_CASE("the parts are the clipped sum and the share of unclipped examples", "[joint]") {
  const EchoProgram program(2);
  // Norms 5, 0.5, 0, not finite: two within the clip norm, and one that counts as clipped.
  const Dataset data = make_data(2, {3, 4, 0.3f, -0.4f, 0, 0, 1, 1}, {0, 0, 0, 1});
  const std::vector<std::uint32_t> rows{0, 1, 2, 3};
  const Released joint = without_noise(clipped_sum(program, data, rows, 1.0, serial, 0.3));
  const auto parts = take_apart(joint, 1.0, 0.3);
  REQUIRE(parts.gradients.values().size() == 2);
  CHECK_THAT(parts.gradients.values()[0], WithinRel(0.9, 1e-6));
  CHECK_THAT(parts.gradients.values()[1], WithinRel(0.4, 1e-6));
  // With divisor 1, the result is (2 - 2) / 2 + 1/2.
  CHECK_THAT(parts.unclipped, WithinAbs(0.5, 1e-6));
}

TEST_CASE("the noise splits as the shares say", "[joint][privacy]") {
  // An empty batch gives pure noise; z = 1.5, sigma_b = 2, C = 3, divided by 10.
  constexpr double kMultiplier = 1.5, kCountNoise = 2.0, kClipNorm = 3.0, kDivisor = 10.0;
  constexpr std::size_t kSteps = 4000, kSize = 15;
  const double share = count_share(kMultiplier, kCountNoise);
  const auto aggregator = independent_noise(kMultiplier);
  const auto executor = core::make_executor(1);
  Mechanism mechanism(aggregator, core::RandomKey::from_seed(9), *executor);
  TempDir dir;
  CountingAccountant accountant;
  core::Ledger ledger(dir.path() / "ledger.jsonl", {.target_epsilon = {}, .target_delta = 1e-5},
                      accountant, "fake", {});
  std::vector<core::Charge> charges;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    charges.push_back({step, Event::gaussian(kMultiplier), Event::gaussian(kMultiplier)});
  }
  auto receipts = ledger.charge(charges);
  const EchoProgram program(kSize);
  const Dataset data = make_data(kSize, std::vector<float>(kSize, 0.0f), {0.0f});
  double gradient_squares = 0.0, count_squares = 0.0, products = 0.0, said = 0.0;
  for (core::Receipt& receipt : receipts) {
    const Released joint = mechanism.release(
        clipped_sum(program, data, {}, kClipNorm, serial, share), std::move(receipt), kDivisor);
    const auto parts = take_apart(joint, kClipNorm, share);
    for (const double x : parts.gradients.values()) gradient_squares += x * x;
    const double count = (parts.unclipped - 0.5) * kDivisor;
    count_squares += count * count;
    products += count * static_cast<double>(parts.gradients.values()[0]);
    said = parts.gradients.noise_stddev();
  }
  // z_delta = (1/1.5^2 - 1/4^2)^(-1/2) = 1.618080
  const double z_delta = 1.6180797;
  CHECK_THAT(said, WithinRel(z_delta * kClipNorm / kDivisor, 1e-6));
  // Six standard errors of a standard deviation (1/sqrt(2 n)): false alarm below 1e-8.
  CHECK_THAT(std::sqrt(gradient_squares / (kSteps * kSize)),
             WithinRel(said, 6.0 / std::sqrt(2.0 * kSteps * kSize)));
  CHECK_THAT(std::sqrt(count_squares / kSteps),
             WithinRel(kCountNoise, 6.0 / std::sqrt(2.0 * kSteps)));
  CHECK(std::abs(products / kSteps) < 6.0 * kCountNoise * said / std::sqrt(1.0 * kSteps));
}
