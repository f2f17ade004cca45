// Releases of sums in whole numbers: the output of a mechanism, bit by bit.
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "fake_accountant.hpp"
#include "fake_aggregator.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "house_plugins.hpp"
#include "payments.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/trust/correlated_mechanism.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/resident_run.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/trust/testing.hpp"
#include "trust_support.hpp"

using namespace privgrad;
using core::BoundedOnGrid;
using core::Charge;
using core::CorrelatedMechanism;
using core::CorrelatedRecipes;
using core::kExactLevels;
using core::Ledger;
using core::Mechanism;
using core::RandomKey;
using core::Receipt;
using core::release_shift;
using core::RoundedGaussianStream;

namespace {

using Cells = std::vector<std::int64_t>;

/// Returns the exact sum of one example with these values, which is at most `l2_bound` long.
BoundedOnGrid exact_sum_of(std::vector<float> values, double l2_bound) {
  const std::size_t size = values.size();
  const EchoProgram program(size);
  const Dataset data(ExampleShape{{size}, 0}, std::move(values), {0.0f});
  return exact_sum(program, data, std::vector<std::uint32_t>{0}, l2_bound, serial);
}

std::vector<float> example(std::size_t size, std::uint64_t step) {
  std::vector<float> x(size);
  for (std::size_t i = 0; i < size; ++i)
    x[i] = static_cast<float>(
        std::sin(0.1 * static_cast<double>(i) + static_cast<double>(step * step)));
  return x;
}

/// Returns the releases by the definition (src/exact_part.hpp), with the data in long double: R_t =
/// sum_i c_i R_i + round((D_t + Z_t) / 2^h).
/// \param fraction  cells are 2^fraction units of the noise's grid.
std::vector<std::vector<double>> expected_releases(const CorrelatedRecipes& recipes,
                                                   const std::vector<Cells>& x,
                                                   const RandomKey& key, unsigned shift,
                                                   int fraction, double factor) {
  const std::size_t size = x.front().size();
  std::vector<std::vector<long double>> s;
  std::vector<std::vector<double>> releases;
  for (std::uint64_t t = 0; t < recipes.steps(); ++t) {
    s.emplace_back(size);
    for (std::size_t i = 0; i < size; ++i) {
      s[t][i] = static_cast<long double>(x[t][i]) +
                (t == 0 ? 0.0L : static_cast<long double>(recipes.keep(t)) * s[t - 1][i]);
    }
    std::vector<long double> d = s[t];
    std::vector<double> release(size);
    for (const auto& [from, share] : recipes.earlier(t)) {
      double c = share;
      for (std::uint64_t u = from + 1; u <= t; ++u) c *= recipes.keep(u);
      for (std::size_t i = 0; i < size; ++i) {
        d[i] -= static_cast<long double>(c) * s[from][i];
        release[i] += c * releases[from][i];
      }
    }
    Cells y(size);
    for (std::size_t i = 0; i < size; ++i)
      y[i] = static_cast<std::int64_t>(std::floor(std::ldexp(d[i], fraction)));
    const double sigma =
        std::ldexp(recipes.own_multiplier(t) * static_cast<double>(kExactLevels), fraction);
    RoundedGaussianStream(key, recipes.noise(t).front().node)
        .release(0, sigma * factor, shift, y, y);
    for (std::size_t i = 0; i < size; ++i) release[i] += static_cast<double>(y[i]);
    releases.push_back(std::move(release));
  }
  return releases;
}

/// A program whose sums the test writes.
class ScriptedCells final : public Program, public ExactClipping {
 public:
  explicit ScriptedCells(Cells cells) : cells_(std::move(cells)) {}
  std::size_t parameter_count() const override { return cells_.size(); }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch&, std::span<float>) const override {}
  Evaluation evaluate(const Batch&) const override { return {}; }
  std::size_t groups() const override { return 1; }
  std::size_t microbatch_rows() const override { return 1; }
  std::unique_ptr<Pass> make_pass(std::size_t) const override {
    return std::make_unique<Nothing>();
  }
  void backward(const Batch&, Pass&, std::span<double> squared_norms) const override {
    std::fill(squared_norms.begin(), squared_norms.end(), 1.0);
  }
  void make_cells(Pass&, std::span<const double>, std::uint64_t,
                  std::span<SquaredLength> lengths) const override {
    std::fill(lengths.begin(), lengths.end(), SquaredLength{0, 1});
  }
  void add_cells(Pass&, std::span<const std::uint8_t>, std::span<std::int64_t> sum) const override {
    std::copy(cells_.begin(), cells_.end(), sum.begin());
  }

 private:
  class Nothing final : public Pass {};
  Cells cells_;
};

}  // namespace

TEST_CASE("steps on a device need a program that makes them", "[exact]") {
  ScriptedCells program({1, 2, 3});
  CHECK(core::ResidentRun::ability(program) == nullptr);
  CHECK_THROWS_AS(core::ResidentRun(program, Dataset(), StepRule::Kind::descent,
                                    RandomKey::from_seed(1), "p", serial),
                  std::bad_cast);
}

TEST_CASE("an exact release is one rounded Gaussian of its terms' joint variance",
          "[exact][mechanism][privacy]") {
  // Several pieces of work; the last one and its last chunk of noise are not full.
  constexpr std::size_t kSize = 3 * 32 * 1024 + 5000;
  const ScriptedAggregator aggregator([](std::uint64_t) {
    return ReleaseRecipe{.keep = 0, .earlier = {}, .noise = {{70, 3.0}, {7, 4.0}}};
  });
  const RandomKey key = RandomKey::from_seed(10);
  const BoundedOnGrid sum = exact_sum_of(example(kSize, 1), 2.0);
  const double sigma = 5.0 * static_cast<double>(kExactLevels);
  const unsigned shift = release_shift(sigma);
  Cells noised = core::cells_for_testing(sum);
  RoundedGaussianStream(key, 70).release(0, sigma, shift, noised, noised);
  const double width = std::ldexp(2.0 / static_cast<double>(kExactLevels), static_cast<int>(shift));
  std::vector<float> expected;
  for (const std::int64_t cell : noised)
    expected.push_back(static_cast<float>(static_cast<double>(cell) * (width / 10.0)));
  for (const int threads : {1, 2, 4}) {
    const auto executor = core::make_executor(threads);
    Mechanism mechanism(aggregator, key, *executor);
    Payments payments({Event::gaussian(5.0)});
    const Released released =
        mechanism.release(exact_sum_of(example(kSize, 1), 2.0), payments.take(0), 10.0);
    CHECK(values(released) == expected);
    CHECK(released.noise_stddev() == 2.0 * 5.0 / 10.0);
  }
}

// The vectorised result must equal the plain conversion of each cell, on both sides of 2^51 and of
// 2^53, where the methods change.
TEST_CASE("exact releases of large sums are rounded as small ones are", "[exact][mechanism]") {
  constexpr std::int64_t kOne = 1;
  for (const std::int64_t around : {kOne << 20, kOne << 51, kOne << 53, kOne << 62}) {
    for (const std::int64_t sign : {-1, 1}) {
      Cells cells(5000, 12345);
      for (std::size_t i = 0; i < cells.size(); i += 1500)
        cells[i] = sign * (around + static_cast<std::int64_t>(i) - 2000);
      const ScriptedCells program(cells);
      const Dataset data(ExampleShape{{1}, 0}, {0.0f}, {0.0f});
      const RandomKey key = RandomKey::from_seed(11);
      const double multiplier = 0x1p-28;  // a quarter of a cell
      RoundedGaussianStream(key, 0).release(0, 0.25, 0, cells, cells);
      std::vector<float> expected;
      for (const std::int64_t cell : cells)
        expected.push_back(static_cast<float>(static_cast<double>(cell) * (3.0 * 0x1p-26 / 7.0)));
      const auto aggregator = independent_noise(multiplier);
      Mechanism mechanism(aggregator, key, serial);
      Payments payments({Event::gaussian(multiplier)});
      const Released released =
          mechanism.release(exact_sum(program, data, std::vector<std::uint32_t>{0}, 3.0, serial),
                            payments.take(0), 7.0);
      CHECK(values(released) == expected);
    }
  }
}

TEST_CASE("exact noise has standard deviation multiplier * bound / divisor",
          "[exact][mechanism][privacy]") {
  const auto aggregator = independent_noise(1.5);
  Mechanism mechanism(aggregator, RandomKey::from_seed(5), serial);
  Payments payments({Event::gaussian(1.5)});
  constexpr std::size_t kSize = 100'000;
  const Released released =
      mechanism.release(exact_sum_of(std::vector<float>(kSize, 0.0f), 4.0), payments.take(0), 10.0);
  double squares = 0.0;
  for (const float x : released.values()) squares += static_cast<double>(x) * x;
  // A standard deviation has the standard error 1 / sqrt(2 n); six of them: false alarm below 1e-8.
  CHECK_THAT(std::sqrt(squares / kSize), WithinRel(0.6, 6.0 / std::sqrt(2.0 * kSize)));
}

TEST_CASE("without noise an exact release is the sum on the grid", "[exact][mechanism]") {
  const auto aggregator = independent_noise(1.0);
  Mechanism mechanism(aggregator, RandomKey::from_seed(5), serial);
  const Released released = mechanism.release_without_noise(exact_sum_of({0.5f, -0.25f}, 4.0), 2.0);
  CHECK_THAT(released.values()[0], WithinAbs(0.25, 4.0 * 0x1p-26));
  CHECK_THAT(released.values()[1], WithinAbs(-0.125, 4.0 * 0x1p-26));
}

TEST_CASE("what is released lies on one public grid, whatever the data",
          "[exact][mechanism][privacy]") {
  // Float noise added to a float sum lies on a grid that depends on the sum, so values near 0
  // reveal the sum's last bits (Mironov 2012). Here the grid depends only on noise, bound and
  // divisor: in every release, with and without the example, each value is a multiple of its cell.
  constexpr std::size_t kSize = 1023;
  for (const double multiplier : {1.0, 10.0}) {
    const double sigma = multiplier * static_cast<double>(kExactLevels);
    const double cell =
        std::ldexp(1.0 / static_cast<double>(kExactLevels), static_cast<int>(release_shift(sigma)));
    for (const float betrayed : {0.0f, 0.3333f}) {
      const auto aggregator = independent_noise(multiplier);
      Mechanism mechanism(aggregator, RandomKey::from_seed(3), serial);
      Payments payments({Event::gaussian(multiplier)});
      std::vector<float> x(kSize, 0.0f);
      x[17] = betrayed;
      const Released released = mechanism.release(exact_sum_of(x, 1.0), payments.take(0), 1.0);
      for (const float value : released.values()) {
        const double cells = static_cast<double>(value) / cell;
        CHECK(cells == std::round(cells));
      }
    }
  }
}

TEST_CASE("two exact steps get independent noise, and no step gets it twice",
          "[exact][mechanism][privacy]") {
  const auto aggregator = independent_noise(1.0);
  constexpr std::size_t kSize = 4096;
  Mechanism mechanism(aggregator, RandomKey::from_seed(3), serial);
  Payments payments({Event::gaussian(1.0), Event::gaussian(1.0)});
  const auto release = [&](std::size_t step) {
    return values(mechanism.release(exact_sum_of(std::vector<float>(kSize, 0.0f), 1.0),
                                    payments.take(step), 1.0));
  };
  const auto first = release(0), second = release(1);
  double product = 0.0;
  for (std::size_t i = 0; i < kSize; ++i)
    product += static_cast<double>(first[i]) * static_cast<double>(second[i]);
  // A mean of kSize products of standard normals: six standard errors, false alarm below 1e-8.
  CHECK(std::abs(product / kSize) < 6.0 / std::sqrt(kSize));
  Payments again({Event::gaussian(1.0)});
  CHECK_THROWS_AS(mechanism.release(exact_sum_of({0.0f}, 1.0), again.take(0), 1.0), PrivacyError);
}

TEST_CASE("exact noise beyond what can be drawn is refused before anything is released",
          "[exact][mechanism]") {
  const auto aggregator = independent_noise(0x1p35);
  Mechanism mechanism(aggregator, RandomKey::from_seed(3), serial);
  Payments payments({Event::gaussian(0x1p35)});
  CHECK_THROWS_AS(mechanism.release(exact_sum_of({0.0f}, 1.0), payments.take(0), 1.0), ConfigError);
}

TEST_CASE("a correlated run takes no more examples a step than its sums have room for",
          "[exact][correlated][privacy]") {
  const auto aggregator = tree(4, {}, 1.0);
  const auto recipes = CorrelatedRecipes::of(*aggregator, 4);
  const EchoProgram program(2);
  const Dataset data(ExampleShape{{2}, 0}, std::vector<float>(6, 1.0f), std::vector<float>(3));
  const auto sum = [&](std::vector<std::uint32_t> rows) {
    return exact_sum(program, data, rows, 1.0, serial);
  };
  Payments payments(*recipes);
  CorrelatedMechanism mechanism(*recipes, RandomKey::from_seed(1), serial, 2);
  CHECK_THROWS_WITH(mechanism.release(sum({0, 1, 2}), payments.take(0), 1.0),
                    Catch::Matchers::Contains("more than the planned 2 examples"));
  Payments others(*recipes);
  mechanism.release(sum({0, 2}), others.take(0), 1.0);
}

TEST_CASE("neighbours' exact releases differ by what the sums do, in whole cells",
          "[exact][mechanism][privacy]") {
  const auto aggregator = independent_noise(1e-9);  // a deviation of 0.07 cells: no noise
  const auto release = [&](float x) {
    Mechanism mechanism(aggregator, RandomKey::from_seed(3), serial);
    Payments payments({Event::gaussian(1e-9)});
    return mechanism
        .release(exact_sum_of({x}, static_cast<double>(kExactLevels)), payments.take(0), 1.0)
        .values()[0];
  };
  CHECK(release(12345.0f) - release(12000.0f) == 345.0f);
}

TEST_CASE("exact releases of trees are the blocks' whole numbers with one draw each",
          "[exact][correlated][privacy]") {
  constexpr std::uint64_t kSteps = 45;
  constexpr std::size_t kSize = 1500;
  const double bound = 64.0;
  for (const Value::Object& params :
       {Value::Object{}, Value::Object{{"restart_every", Value(8), {}}},
        Value::Object{{"restart_every", Value(21), {}}, {"completion", Value(true), {}}}}) {
    const auto aggregator = tree(kSteps, params, 1.7);
    const auto recipes = CorrelatedRecipes::of(*aggregator, kSteps);
    double least = recipes->own_multiplier(0);
    for (std::uint64_t t = 0; t < kSteps; ++t) least = std::min(least, recipes->own_multiplier(t));
    const unsigned shift = release_shift(least * static_cast<double>(kExactLevels));
    const RandomKey key = RandomKey::from_seed(4);
    std::vector<Cells> x;
    for (std::uint64_t t = 0; t < kSteps; ++t)
      x.push_back(core::cells_for_testing(exact_sum_of(example(kSize, t), bound)));
    const auto expected = expected_releases(*recipes, x, key, shift, 0, 1.0);
    const double width =
        std::ldexp(bound / static_cast<double>(kExactLevels), static_cast<int>(shift));
    for (const int threads : {1, 3}) {
      const auto executor = core::make_executor(threads);
      CorrelatedMechanism mechanism(*recipes, key, *executor);
      Payments payments(*recipes);
      for (std::uint64_t t = 0; t < kSteps; ++t) {
        const Released released =
            mechanism.release(exact_sum_of(example(kSize, t), bound), payments.take(t), 4.0);
        const double factor = recipes->scale(t) * (width / 4.0);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < kSize; ++i) {
          const auto cells = static_cast<double>(released.values()[i]) / factor;
          wrong += std::fabs(cells - expected[t][i]) <= 1e-6 * std::fabs(cells) ? 0 : 1;
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("exact releases that fade, or share, follow the definition to one coarse cell",
          "[exact][correlated][privacy]") {
  constexpr std::uint64_t kSteps = 45;
  constexpr std::size_t kSize = 1500;
  const double bound = 64.0;
  std::vector<CorrelatedRecipes> all;
  for (const Value::Object& params : {Value::Object{{"momentum", Value(0.9), {}}},
                                      Value::Object{{"variance_reduction", Value(true), {}}},
                                      Value::Object{{"momentum", Value(0.9), {}},
                                                    {"restart_every", Value(21), {}},
                                                    {"completion", Value(true), {}},
                                                    {"variance_reduction", Value(true), {}}}})
    all.push_back(*CorrelatedRecipes::of(*tree(kSteps, params, 0.3), kSteps));
  // Shares with both signs, which no tree has.
  const auto of_both_signs = [](std::uint64_t step) {
    ReleaseRecipe made{.keep = 0.9, .earlier = {}, .noise = {{step, 0.3}}};
    if (step > 0) made.earlier.push_back({.step = step - 1, .share = -0.7});
    if (step > 1) made.earlier.push_back({.step = step - 2, .share = 0.2});
    return made;
  };
  all.push_back(CorrelatedRecipes::of(of_both_signs, kSteps));
  for (const CorrelatedRecipes& recipes : all) {
    // Running sums of 128 bits, and of 64 if batches have one example.
    for (const std::uint64_t most_rows : {core::kMostBatchRows, std::uint64_t{1}}) {
      const core::CorrelatedPart part{recipes};
      const double factor = core::exact_noise_factor({&part, 1}, kSize);
      CHECK(factor > 1.0);
      CHECK(factor < 1.0 + 1e-9);
      CHECK(core::exact_noise_factor({&part, 1}, kSize, 1) < 1.0 + 1e-6);
      constexpr int kFraction = 32;
      double least = 1e9;
      for (std::uint64_t t = 0; t < kSteps; ++t) least = std::min(least, recipes.own_multiplier(t));
      const double unit = std::ldexp(static_cast<double>(kExactLevels), kFraction);
      const unsigned shift = release_shift(least * unit);
      const RandomKey key = RandomKey::from_seed(4);
      std::vector<Cells> x;
      for (std::uint64_t t = 0; t < kSteps; ++t)
        x.push_back(core::cells_for_testing(exact_sum_of(example(kSize, t), bound)));
      const double coarse = std::ldexp(1.0, static_cast<int>(shift)) / unit * bound;
      CorrelatedMechanism mechanism(recipes, key, serial, most_rows);
      Payments payments(recipes);
      // Data in cells of the noise's grid exceed 64 bits, so the definition uses coarser cells,
      // where a draw is rounded differently if it is within 2^-20 of halfway.
      std::vector<std::vector<double>> releases;
      double worst_whole = 0.0, worst_stddev = 0.0;
      for (std::uint64_t t = 0; t < kSteps; ++t) {
        const Released released =
            mechanism.release(exact_sum_of(example(kSize, t), bound), payments.take(t), 1.0);
        std::vector<double> now(kSize);
        double squares = 0.0;
        for (std::size_t i = 0; i < kSize; ++i) {
          now[i] = static_cast<double>(released.values()[i]) / (coarse * recipes.scale(t));
          double y = now[i];
          for (const auto& [from, share] : recipes.earlier(t)) {
            double c = share;
            for (std::uint64_t u = from + 1; u <= t; ++u) c *= recipes.keep(u);
            y -= c * releases[from][i];
          }
          // The new part of a release is a whole number of public cells, and reveals nothing else
          // about the data.
          worst_whole = std::max(worst_whole, std::fabs(y - std::round(y)));
          // The new part equals the new data, with noise of the step's own standard deviation.
          long double data = 0.0L;
          for (std::uint64_t u = 0; u <= t; ++u) {
            long double weight = 1.0L;
            for (std::uint64_t v = u + 1; v <= t; ++v) weight *= recipes.keep(v);
            long double shares = 0.0L;
            for (const auto& [from, share] : recipes.earlier(t)) shares += from >= u ? share : 0.0;
            data += weight * (1.0L - shares) * static_cast<long double>(x[u][i]);
          }
          const double noise =
              y - static_cast<double>(std::ldexp(data, kFraction - static_cast<int>(shift)));
          squares += noise * noise;
        }
        const double sigma = recipes.own_multiplier(t) * std::ldexp(unit, -static_cast<int>(shift));
        worst_stddev = std::max(worst_stddev, std::fabs(std::sqrt(squares / kSize) / sigma - 1.0));
        releases.push_back(std::move(now));
      }
      CHECK(worst_whole < 0.02);
      // Six standard errors of a standard deviation, for 45 steps: false alarm below 1e-6.
      CHECK(worst_stddev < 6.0 / std::sqrt(2.0 * kSize));
    }
  }
}

TEST_CASE("sums that leave 64 bits are released as if they had not, modulo what is left",
          "[exact][correlated][privacy]") {
  // R_t = 2 R_{t-1} + y_t: the releases double until they wrap. Expected from the definition, with
  // R_t modulo 2^(64 - h); D_t = s_t - 2 s_{t-1} stays small.
  constexpr std::uint64_t kSteps = 60;
  constexpr std::size_t kSize = 700;
  const auto recipe = [](std::uint64_t step) {
    ReleaseRecipe made{.keep = 1.0, .earlier = {}, .noise = {{step, 2.0}}};
    if (step > 0) made.earlier.push_back({.step = step - 1, .share = 2.0});
    return made;
  };
  const auto recipes = CorrelatedRecipes::of(recipe, kSteps);
  const double sigma = 2.0 * static_cast<double>(kExactLevels);
  const unsigned shift = release_shift(sigma);
  const RandomKey key = RandomKey::from_seed(6);
  CorrelatedMechanism mechanism(recipes, key, serial);
  Payments payments(recipes);
  const Cells x = core::cells_for_testing(exact_sum_of(example(kSize, 3), 32.0));
  std::vector<std::uint64_t> r(kSize, 0);
  std::size_t wrong = 0;
  double largest = 0.0;
  for (std::uint64_t t = 0; t < kSteps; ++t) {
    Cells y(kSize);
    for (std::size_t i = 0; i < kSize; ++i)  // s_t = (t + 1) x
      y[i] = (static_cast<std::int64_t>(t + 1) - 2 * static_cast<std::int64_t>(t)) * x[i];
    RoundedGaussianStream(key, t).release(0, sigma, shift, y, y);
    const Released released =
        mechanism.release(exact_sum_of(example(kSize, 3), 32.0), payments.take(t),
                          32.0 / static_cast<double>(kExactLevels));
    for (std::size_t i = 0; i < kSize; ++i) {
      r[i] = 2 * r[i] + static_cast<std::uint64_t>(y[i]);
      const auto cell = static_cast<std::int64_t>(r[i] << shift) >> shift;
      const double expected = std::ldexp(static_cast<double>(cell), static_cast<int>(shift));
      wrong += std::fabs(static_cast<double>(released.values()[i]) - expected) <=
                       1e-6 * std::fabs(expected)
                   ? 0
                   : 1;
      largest = std::max(largest, std::fabs(expected));
    }
  }
  CHECK(wrong == 0);
  CHECK(largest > 0x1p62);  // the releases did wrap around
}

TEST_CASE("roundings of exact sums that fade are paid for with at most 1e-6 of the noise",
          "[exact][correlated][privacy]") {
  const auto factor = [](std::uint64_t steps, const Value::Object& params, std::size_t parameters) {
    const auto aggregator = tree(steps, params, 1.0);
    const core::CorrelatedPart part{*CorrelatedRecipes::of(*aggregator, steps)};
    return core::exact_noise_factor({&part, 1}, parameters);
  };
  CHECK(factor(1000, {}, 1'000'000'000) == 1.0);
  CHECK(factor(1000, {{"restart_every", Value(10), {}}}, 1'000'000'000) == 1.0);
  const double large = factor(100'000, {{"momentum", Value(0.999), {}}}, 1'000'000'000);
  CHECK(large > 1.0);
  CHECK(large < 1.0 + 1e-6);
  CHECK(factor(1000, {{"variance_reduction", Value(true), {}}}, 1'000'000) < 1.0 + 1e-9);
}

TEST_CASE("sums on the grid and in floating point are not mixed in one run",
          "[exact][correlated][privacy]") {
  const auto aggregator = tree(4, {}, 1.0);
  const auto recipes = CorrelatedRecipes::of(*aggregator, 4);
  const EchoProgram program(2);
  const Dataset data(ExampleShape{{2}, 0}, {1.0f, 2.0f}, {0.0f});
  const auto floating = [&] { return clipped_sum(program, data, {}, 1.0, serial); };
  const auto exact = [&] { return exact_sum(program, data, {}, 1.0, serial); };
  Payments payments(*recipes);
  CorrelatedMechanism one(*recipes, RandomKey::from_seed(1), serial);
  one.release(exact(), payments.take(0), 1.0);
  CHECK_THROWS_AS(one.release(floating(), payments.take(1), 1.0), PrivacyError);
  Payments others(*recipes);
  CorrelatedMechanism other(*recipes, RandomKey::from_seed(1), serial);
  other.release(floating(), others.take(0), 1.0);
  CHECK_THROWS_AS(other.release(exact(), others.take(1), 1.0), PrivacyError);
}
