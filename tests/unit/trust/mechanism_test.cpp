#include "privgrad/trust/mechanism.hpp"

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "fake_accountant.hpp"
#include "fake_aggregator.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "payments.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/normals.hpp"
#include "support.hpp"
#include "trust_support.hpp"

using namespace privgrad;
using core::Charge;
using core::Ledger;
using core::Mechanism;
using core::RandomKey;
using core::Receipt;
using core::release_events;

namespace {

/// Returns a bounded sum of `size` zeros, whose release is pure noise.
Bounded zeros(std::size_t size, double l2_bound) {
  const EchoProgram program(size);
  const Dataset data(ExampleShape{{size}, 0}, std::vector<float>(size, 0.0f), {0.0f});
  return clipped_sum(program, data, {}, l2_bound, serial);
}

}  // namespace

TEST_CASE("noise has standard deviation multiplier * bound / divisor", "[mechanism][privacy]") {
  const auto aggregator = independent_noise(1.5);
  Mechanism mechanism(aggregator, RandomKey::from_seed(5), serial);
  Payments payments(1, 1.5);
  constexpr std::size_t kSize = 100'000;
  const Released released = mechanism.release(zeros(kSize, 4.0), payments.take(0), 10.0);
  const double expected = 1.5 * 4.0 / 10.0;
  CHECK(released.noise_stddev() == expected);
  double squares = 0.0;
  for (const float x : released.values()) squares += static_cast<double>(x) * x;
  // A standard deviation has the standard error 1 / sqrt(2 n); six of them: false alarm below 1e-8.
  CHECK_THAT(std::sqrt(squares / kSize), WithinRel(expected, 6.0 / std::sqrt(2.0 * kSize)));
}

TEST_CASE("a noisy sum is divided by a positive number, or not released", "[mechanism]") {
  const auto aggregator = independent_noise(1.5);
  Mechanism mechanism(aggregator, RandomKey::from_seed(5), serial);
  Payments payments(4, 1.5);
  std::uint64_t step = 0;
  for (const double divisor : {0.0, -1.0, std::nan(""), HUGE_VAL})
    CHECK_THROWS_AS(mechanism.release(zeros(2, 1.0), payments.take(step++), divisor), ConfigError);
}

TEST_CASE("the noise of a release is its nodes' normals, on any number of threads",
          "[mechanism][privacy]") {
  // Several pieces of work; the last one and its last chunk of normals are not full.
  constexpr std::size_t kSize = 3 * 32 * 1024 + 5000;
  const ScriptedAggregator aggregator([](std::uint64_t) {
    return ReleaseRecipe{.keep = 0, .earlier = {}, .noise = {{70, 3.0}, {7, 4.0}}};
  });
  const RandomKey key = RandomKey::from_seed(10);
  std::vector<float> first(kSize), second(kSize);
  core::NormalStream(key, 70).fill(0, first);
  core::NormalStream(key, 7).fill(0, second);
  std::vector<float> expected(kSize);
  for (std::size_t i = 0; i < kSize; ++i)
    expected[i] = static_cast<float>(2.0 * (3.0 * first[i] + 4.0 * second[i]) / 10.0);
  for (const int threads : {1, 2, 4}) {
    const auto executor = core::make_executor(threads);
    Mechanism mechanism(aggregator, key, *executor);
    Payments payments(1, 5.0);
    CHECK(values(mechanism.release(zeros(kSize, 2.0), payments.take(0), 10.0)) == expected);
  }
}

TEST_CASE("floating point never makes a release's noise smaller than what was paid for",
          "[mechanism][privacy]") {
  // Expected from the definition: the smallest double that is at least bound * multiplier (a long
  // double holds the product of these numbers to more digits), and one rounding to float32, after
  // the noise is added, so that x is never rounded without noise. x almost cancels the noise, so
  // that the last digit of the noise's standard deviation is visible in the release.
  constexpr std::size_t kSize = 50;
  const RandomKey key = RandomKey::from_seed(11);
  std::vector<float> normals(kSize);
  core::NormalStream(key, 0).fill(0, normals);
  const EchoProgram program(kSize);
  int rounded_up = 0, seen = 0;
  for (int i = 1; i <= 40; ++i) {
    const double multiplier = 0.02 + 0.0013 * i;
    const double bound = 3.0 / i;
    const double divisor = 10.0 + 7.0 * i;
    const long double exact = static_cast<long double>(bound) * multiplier;
    const double nearest = static_cast<double>(exact);
    double stddev = nearest;
    if (stddev < exact) {
      stddev = std::nextafter(stddev, 1e30);
      ++rounded_up;
    }
    std::vector<float> example(kSize);
    for (std::size_t j = 0; j < kSize; ++j) example[j] = static_cast<float>(-stddev * normals[j]);
    const Dataset data(ExampleShape{{kSize}, 0}, example, {0.0f});
    const std::vector<std::uint32_t> batch{0};

    const auto aggregator = independent_noise(multiplier);
    Mechanism mechanism(aggregator, key, serial);
    Payments payments(1, multiplier);
    const auto released = values(mechanism.release(clipped_sum(program, data, batch, bound, serial),
                                                   payments.take(0), divisor));
    const auto expected = [&](double sigma, std::size_t j) {
      return static_cast<float>((example[j] + sigma * normals[j]) * (1.0 / divisor));
    };
    for (std::size_t j = 0; j < kSize; ++j) {
      CHECK(released[j] == expected(stddev, j));
      seen += expected(stddev, j) != expected(nearest, j) ? 1 : 0;
    }
  }
  CHECK(rounded_up > 5);
  CHECK(seen > 5);
}

TEST_CASE("noise too small for a normal float keeps its precision until it is added",
          "[mechanism][privacy]") {
  const auto aggregator = independent_noise(1e-16);
  constexpr std::size_t kSize = 50;
  const RandomKey key = RandomKey::from_seed(12);
  std::vector<float> normals(kSize);
  core::NormalStream(key, 0).fill(0, normals);
  Mechanism mechanism(aggregator, key, serial);
  Payments payments(1, 1e-16);
  const auto released = values(mechanism.release(zeros(kSize, 1e-20), payments.take(0), 1e4));
  for (std::size_t j = 0; j < kSize; ++j) {
    CHECK(released[j] == static_cast<float>(1e-36 * static_cast<double>(normals[j]) * 1e-4));
  }
}

TEST_CASE("two steps get independent noise", "[mechanism][privacy]") {
  const auto aggregator = independent_noise(1.0);
  Mechanism mechanism(aggregator, RandomKey::from_seed(6), serial);
  Payments payments(2, 1.0);
  constexpr std::size_t kSize = 100'000;
  const auto first = values(mechanism.release(zeros(kSize, 1.0), payments.take(0), 1.0));
  const auto second = values(mechanism.release(zeros(kSize, 1.0), payments.take(1), 1.0));
  double product = 0.0;
  for (std::size_t i = 0; i < kSize; ++i) product += static_cast<double>(first[i]) * second[i];
  CHECK(std::abs(product / kSize) < 6.0 / std::sqrt(static_cast<double>(kSize)));
}

TEST_CASE("a receipt pays for the noise it was made for, and no less", "[mechanism][privacy]") {
  const auto less_noise = independent_noise(0.5);
  Mechanism mechanism(less_noise, RandomKey::from_seed(7), serial);
  Payments paid_for_more_noise(1, 1.0);
  CHECK_THROWS_WITH(mechanism.release(zeros(3, 1.0), paid_for_more_noise.take(0), 1.0),
                    ContainsSubstring("paid for other noise"));
}

TEST_CASE("a step's noise is never used for a second release", "[mechanism][privacy]") {
  // With the same noise on two sums, their difference would be released exactly.
  const auto aggregator = independent_noise(1.0);
  Mechanism mechanism(aggregator, RandomKey::from_seed(8), serial);
  Payments first(2, 1.0), second(2, 1.0);
  mechanism.release(zeros(3, 1.0), first.take(0), 1.0);
  CHECK_THROWS_WITH(mechanism.release(zeros(3, 1.0), second.take(0), 1.0),
                    ContainsSubstring("released before"));
  mechanism.release(zeros(3, 1.0), first.take(1), 1.0);
}

TEST_CASE("an aggregator that names an old node after planning is caught at the release",
          "[mechanism][privacy]") {
  bool planned = false;
  const ScriptedAggregator impure([&planned](std::uint64_t step) {
    return ReleaseRecipe{
        .keep = 0, .earlier = {}, .noise = {{.node = planned ? 0 : step, .multiplier = 1.0}}};
  });
  CHECK(release_events(impure, 2).size() == 2);
  planned = true;
  Mechanism mechanism(impure, RandomKey::from_seed(9), serial);
  Payments payments(2, 1.0);
  mechanism.release(zeros(3, 1.0), payments.take(0), 1.0);
  CHECK_THROWS_WITH(mechanism.release(zeros(3, 1.0), payments.take(1), 1.0),
                    ContainsSubstring("noise node 0 again"));
}

TEST_CASE("what is charged follows from the recipe", "[mechanism][privacy]") {
  SECTION("independent noise: one Gaussian a step") {
    const auto events = release_events(independent_noise(2.0), 3);
    CHECK(events == std::vector<Event>(3, Event::gaussian(2.0)));
  }
  SECTION("several fresh nodes add up in squares") {
    const ScriptedAggregator two([](std::uint64_t step) {
      return ReleaseRecipe{
          .keep = 0, .earlier = {}, .noise = {{2 * step, 3.0}, {2 * step + 1, 4.0}}};
    });
    CHECK(release_events(two, 2).front() == Event::gaussian(5.0));
  }
}

TEST_CASE("recipes without a proof are refused", "[mechanism][privacy]") {
  // Each receipt has a single defect, so that no other check can refuse it first.
  const auto refused = [](const std::string& why,
                          std::function<void(std::uint64_t, ReleaseRecipe&)> spoil) {
    const ScriptedAggregator aggregator([spoil](std::uint64_t step) {
      ReleaseRecipe recipe{.keep = 0, .earlier = {}, .noise = {{.node = step, .multiplier = 1.0}}};
      spoil(step, recipe);
      return recipe;
    });
    CHECK_THROWS_AS(release_events(aggregator, 3), PrivacyError);
    CHECK_THROWS_WITH(release_events(aggregator, 3), ContainsSubstring(why));
  };
  refused("noise node 0 again", [](std::uint64_t, ReleaseRecipe& r) { r.noise[0].node = 0; });
  refused("data of earlier steps",
          [](std::uint64_t step, ReleaseRecipe& r) { r.keep = step == 2 ? 0.5 : 0.0; });
  refused("noise of earlier steps", [](std::uint64_t step, ReleaseRecipe& r) {
    if (step == 2) r.earlier = {{.step = 1, .share = 0.5}};
  });
  refused("is scaled", [](std::uint64_t step, ReleaseRecipe& r) { r.scale = step == 2 ? 0.5 : 1; });
  refused("protects nothing", [](std::uint64_t, ReleaseRecipe& r) { r.noise.clear(); });
  refused("protects nothing", [](std::uint64_t, ReleaseRecipe& r) { r.noise[0].multiplier = 0.0; });
  refused("protects nothing",
          [](std::uint64_t, ReleaseRecipe& r) { r.noise[0].multiplier = std::nan(""); });
}

// Two copies of a state that pay for different noise at one step, or clip to different norms: with
// the same normals z, s + a z and s + b z reveal s. The correlation of 4096 independent pairs is
// beyond 6 / sqrt(4096) once in 10^9 times.
TEST_CASE("what is paid for decides which noise a step has, once each step has a key of its own",
          "[mechanism][privacy]") {
  constexpr std::size_t kSize = 4096;
  const auto release = [](double multiplier, bool has_key_of_step, double l2_bound = 1.0) {
    const auto aggregator = independent_noise(multiplier);
    Mechanism mechanism(aggregator, RandomKey::from_seed(3), serial);
    if (has_key_of_step) mechanism.use_key(RandomKey::from_seed(3));
    return values(mechanism.release(zeros(kSize, l2_bound), Payments(1, multiplier).take(0), 1.0));
  };
  const auto correlation = [](const std::vector<float>& a, const std::vector<float>& b) {
    double both = 0.0, first = 0.0, second = 0.0;
    for (std::size_t i = 0; i < kSize; ++i) {
      both += static_cast<double>(a[i]) * static_cast<double>(b[i]);
      first += static_cast<double>(a[i]) * static_cast<double>(a[i]);
      second += static_cast<double>(b[i]) * static_cast<double>(b[i]);
    }
    return both / std::sqrt(first * second);
  };
  CHECK(std::fabs(correlation(release(1.0, true), release(2.0, true))) < 6.0 / 64.0);
  CHECK(std::fabs(correlation(release(1.0, true), release(1.0, true, 2.0))) < 6.0 / 64.0);
  CHECK(release(1.0, true) == release(1.0, true));
  // Arms of a study share the normals of a seed, whatever their scale.
  CHECK(correlation(release(1.0, false), release(2.0, false)) > 0.999);
  CHECK(correlation(release(1.0, false), release(1.0, false, 2.0)) > 0.999);
}
