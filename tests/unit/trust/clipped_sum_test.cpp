#include "privgrad/trust/clipped_sum.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "fake_aggregator.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "support.hpp"
#include "trust_support.hpp"

using namespace privgrad;

namespace {

/// Returns the exact sum, which only a mechanism without noise and with divisor 1 makes
/// visible.
std::vector<float> values_of(Bounded sum) {
  const auto aggregator = independent_noise(1.0);
  core::Mechanism mechanism(aggregator, core::RandomKey::from_seed(0), serial);
  const Released released = mechanism.release_without_noise(std::move(sum), 1.0);
  return {released.values().begin(), released.values().end()};
}

}  // namespace

TEST_CASE("NaN and infinities count as zero, in the sum and in the norm", "[clip][privacy]") {
  const EchoProgram program(2);
  const float nan_row = 1.0f, infinite_row = 2.0f, minus_infinite_row = 3.0f;
  const Dataset data = make_data(2, {3, 4, 100, 100, 100, 100, 100, 100, 0.5, 0},
                                 {0, nan_row, infinite_row, minus_infinite_row, 0});
  const auto sum = values_of(clipped_sum(program, data, all_rows(data), 1.0, serial));
  CHECK_THAT(sum[0], WithinRel(0.6 + 0.5, 1e-6));
  CHECK_THAT(sum[1], WithinRel(0.8, 1e-6));
}

TEST_CASE("a bound whose sums single precision cannot hold is refused", "[clip][privacy]") {
  // Two contributions of 2e38 overflow, while one does not: no noise hides that. And 1e-44 is only
  // a few times the smallest number.
  const EchoProgram program(1);
  const Dataset data = make_data(1, {2e38f, 2e38f}, {0, 0});
  for (const double bound : {3e38, 1e-44, 0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS(clipped_sum(program, data, all_rows(data), bound, serial), ConfigError);
  }
  for (const double bound : {core::kSmallestClipNorm, core::kLargestClipNorm}) {
    const auto sum = values_of(clipped_sum(program, data, all_rows(data), bound, serial));
    CHECK_THAT(sum[0], WithinRel(2.0 * bound, 1e-6));
  }
}

TEST_CASE("a row that the backend leaves unwritten counts as zero", "[clip][privacy]") {
  // 600 rows of one parameter are chunks of 64 in eight lanes: the last 88 rows, which the program
  // does not write, reuse memory in which other rows were written.
  std::vector<float> features(600, 0.0f);
  std::fill_n(features.begin(), 512, 0.5f);
  const Dataset data = make_data(1, features, std::vector<float>(600, 0.0f));
  CHECK(values_of(clipped_sum(ForgetfulProgram(), data, all_rows(data), 1.0, serial))[0] ==
        0.5f * 512);
}

TEST_CASE("a row that the backend leaves unwritten in part counts as zero", "[clip][privacy]") {
  // As above; for the last 88 rows the second number is written, and the first belongs to another
  // example.
  std::vector<float> features(1200, 0.5f);
  for (std::size_t row = 0; row < 600; ++row) features[2 * row] = row < 512 ? 0.25f : 0.0f;
  const Dataset data = make_data(2, features, std::vector<float>(600, 0.0f));
  CHECK(values_of(clipped_sum(ForgetfulProgram(2), data, all_rows(data), 1.0, serial)) ==
        std::vector<float>{0.25f * 512, 0.5f * 512});
}

TEST_CASE("the clipped sum of known rows", "[clip]") {
  const EchoProgram program(2);
  // Norms 5, 0.5, 0: after clipping to 1 they are (.6, .8), (.3, -.4), (0, 0).
  const Dataset data = make_data(2, {3, 4, 0.3f, -0.4f, 0, 0}, {0, 0, 0});
  const Bounded bounded = clipped_sum(program, data, all_rows(data), 1.0, serial);
  CHECK(bounded.l2_bound() == 1.0);
  CHECK(bounded.unit() == PrivacyUnit::example);
  const auto sum = values_of(clipped_sum(program, data, all_rows(data), 1.0, serial));
  CHECK_THAT(sum[0], WithinRel(0.9, 1e-6));
  CHECK_THAT(sum[1], WithinRel(0.4, 1e-6));
}

// With a count share of 0.6, gradients keep 0.8 of their length: 0.6^2 + 0.8^2 = 1.
TEST_CASE("beside a count, an example's gradient and its part of the count have the clip norm",
          "[clip][privacy]") {
  const EchoProgram program(2);
  const auto summed = [&](float x, float y) {
    const Dataset data = make_data(2, {x, y}, {0});
    return values_of(clipped_sum(program, data, all_rows(data), 2.0, serial, 0.6));
  };
  const auto clipped = summed(3, 4);  // norm 5 becomes (1.2, 1.6), and does not count as within
  CHECK_THAT(clipped[0], WithinRel(0.8 * 1.2, 1e-6));
  CHECK_THAT(clipped[1], WithinRel(0.8 * 1.6, 1e-6));
  CHECK_THAT(clipped[2], WithinRel(-0.6 * 2.0, 1e-6));
  const auto within = summed(0.3f, -0.4f);
  CHECK_THAT(within[0], WithinRel(0.8 * 0.3, 1e-6));
  CHECK_THAT(within[1], WithinRel(-0.8 * 0.4, 1e-6));
  CHECK_THAT(within[2], WithinRel(0.6 * 2.0, 1e-6));
}

TEST_CASE("taking one example away changes the sum by at most the bound", "[clip][privacy]") {
  core::RandomKey::from_seed(0);
  const EchoProgram program(40);
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> features(200 * 40);
  for (float& x : features) x = normal(random) * 10.0f;
  const Dataset data = make_data(40, features, std::vector<float>(200, 0.0f));
  auto rows = all_rows(data);
  const auto with = values_of(clipped_sum(program, data, rows, 0.7, serial));
  for (const std::size_t leaving : {0u, 17u, 199u}) {
    auto others = rows;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(leaving));
    const auto without = values_of(clipped_sum(program, data, others, 0.7, serial));
    double squares = 0.0;
    for (std::size_t i = 0; i < with.size(); ++i) squares += std::pow(with[i] - without[i], 2.0);
    CHECK(std::sqrt(squares) <= 0.7 + 1e-4);  // the sums are floats of size 30: rounding 2e-6 each
    CHECK(std::sqrt(squares) >=
          0.69);  // every one of these rows is clipped, so it changes the sum by 0.7
  }
}

TEST_CASE("an empty batch is the zero vector", "[clip][privacy]") {
  const EchoProgram program(3);
  const Dataset data = make_data(3, {1, 2, 3}, {0});
  CHECK(values_of(clipped_sum(program, data, {}, 1.0, serial)) == std::vector<float>(3, 0.0f));
}

TEST_CASE("a sampler that repeats or invents rows is caught", "[clip][privacy]") {
  const EchoProgram program(1);
  const Dataset data = make_data(1, {1, 2}, {0, 0});
  const std::vector<std::uint32_t> twice{0, 1, 0}, beyond{2};
  CHECK_THROWS_AS(clipped_sum(program, data, twice, 1.0, serial), PluginError);
  CHECK_THROWS_AS(clipped_sum(program, data, beyond, 1.0, serial), PluginError);
}

TEST_CASE("the sum is the same, bit for bit, for any number of threads", "[clip]") {
  const EchoProgram program(1000);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> features(1500 * 1000);
  for (float& x : features) x = normal(random);
  const Dataset data = make_data(1000, features, std::vector<float>(1500, 0.0f));
  const auto expected = values_of(clipped_sum(program, data, all_rows(data), 1.0, serial));
  for (const int threads : {1, 2, 5}) {
    const auto executor = core::make_executor(threads);
    const auto sum = values_of(clipped_sum(program, data, all_rows(data), 1.0, *executor));
    CHECK(std::memcmp(sum.data(), expected.data(), sum.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("evaluation covers every row once", "[clip]") {
  const EchoProgram program(1);
  const Dataset data = make_data(1, std::vector<float>(1000, 1.0f), std::vector<float>(1000, 0.0f));
  const Evaluation sums = core::evaluate(program, data, serial);
  CHECK(sums.loss == 1000.0);
  CHECK(sums.correct == 1000);
}
