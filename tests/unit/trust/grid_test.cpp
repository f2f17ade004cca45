#include "privgrad/trust/grid.hpp"

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "fake_accountant.hpp"
#include "fake_aggregator.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/instruction_set.hpp"
#include "privgrad/trust/cell_kernels.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/discrete_gaussian.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "support.hpp"
#include "trials.hpp"
#include "trust_support.hpp"

using namespace privgrad;
using core::BoundedOnGrid;
using core::Mechanism;
using core::RandomKey;
using core::round_to_grid;
using core::sigma_in_cells;

namespace {

__extension__ using Wide = unsigned __int128;

std::vector<ParameterGroup> one_group(std::size_t size) { return {{"all", 0, size}}; }

std::vector<std::int32_t> rounded(const std::vector<float>& row, double factor, double clip_norm,
                                  std::uint64_t levels) {
  const auto groups = one_group(row.size());
  std::vector<std::int32_t> cells(row.size(), 77);
  round_to_grid(row, groups, std::vector<double>{factor}, clip_norm, levels, cells);
  return cells;
}

/// Exactly.
bool is_within(const std::vector<std::int32_t>& cells, std::uint64_t levels) {
  Wide squares = 0;
  for (const std::int64_t cell : cells) squares += static_cast<Wide>(cell * cell);
  return squares <= static_cast<Wide>(levels) * levels;
}

/// The cells of one row, clipped flat as a run clips it.
std::vector<std::int32_t> clipped_cells(const std::vector<float>& row, double clip_norm,
                                        std::uint64_t levels) {
  const auto groups = one_group(row.size());
  const std::vector<double> squared_norm{core::squared_norm_at_most(row)};
  std::vector<double> factor(1);
  core::clip_factors({.rule = flat_clipping(), .groups = groups, .clip_norm = clip_norm},
                     squared_norm, factor);
  return rounded(row, factor[0], clip_norm, levels);
}

/// HostileRows that a backend might give: of all sizes, some with denormals or what is not finite.
class HostileRows {
 public:
  std::vector<float> next() {
    std::vector<float> row(1 + random_() % 300);
    const int kind = static_cast<int>(random_() % 6);
    const float size = std::ldexp(1.0f, static_cast<int>(random_() % 80) - 40);
    for (float& x : row) {
      if (kind == 0) {
        x = std::bit_cast<float>(static_cast<std::uint32_t>(random_()));  // anything at all
      } else if (kind == 1) {
        x = std::bit_cast<float>(static_cast<std::uint32_t>(random_() % 0x00800000));  // denormal
      } else if (kind == 2) {
        x = std::numeric_limits<float>::max();
      } else if (kind == 3) {
        x = size;  // all alike: many coordinates on the edge of a cell
      } else {
        x = size * normal_(random_);
      }
    }
    return row;
  }
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  std::uint64_t integer() { return random_(); }

 private:
  std::mt19937_64 random_{5};
  std::normal_distribution<float> normal_;
};

ScriptedAggregator on_grid(std::uint64_t levels, double multiplier) {
  return ScriptedAggregator([=](std::uint64_t step) {
    return ReleaseRecipe{.keep = 0.0,
                         .earlier = {},
                         .noise = {{.node = step, .multiplier = multiplier}},
                         .grid_levels = levels};
  });
}

core::Receipt paid(const Event& event) {
  TempDir dir;
  CountingAccountant accountant;
  core::Ledger ledger(dir.path() / "ledger.jsonl", {.target_epsilon = {}, .target_delta = 1e-5},
                      accountant, "fake", {});
  const std::vector<core::Charge> charges{{0, event, Event::gaussian(1.0)}};
  return std::move(ledger.charge(charges).front());
}

BoundedOnGrid sum_of(const Dataset& data, std::span<const std::uint32_t> batch, double clip_norm,
                     std::uint64_t levels, Executor& executor = serial) {
  const EchoProgram program(data.row_size());
  const auto groups = one_group(data.row_size());
  return core::clipped_sum_on_grid(
      program, data, batch, {.rule = flat_clipping(), .groups = groups, .clip_norm = clip_norm},
      levels, executor);
}

/// The cells of a sum: what is released with the least noise there is, sigma 1, and cells of width
/// 1, less that noise. Exact below 2^24, which floats hold.
std::vector<std::int64_t> released_cells(BoundedOnGrid sum, Executor& executor = serial) {
  REQUIRE(sum.cell_width() == 1.0);
  const std::uint64_t levels = sum.levels();
  const RandomKey key = RandomKey::from_seed(3);
  const auto aggregator = on_grid(levels, 0.5 / static_cast<double>(levels));
  Mechanism mechanism(aggregator, key, executor);
  const Event event = core::grid_release_event(levels, 1, kZeroOut);
  const Released released = mechanism.release(std::move(sum), kZeroOut, paid(event), 1.0);
  std::vector<std::int64_t> cells(released.values().begin(), released.values().end());
  core::DiscreteGaussianStream stream(key, 0, 1);
  std::vector<std::int64_t> noise(core::kDiscreteChunk);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i % noise.size() == 0) stream.fill(i / noise.size(), noise);
    cells[i] -= noise[i % noise.size()];
  }
  return cells;
}

}  // namespace

TEST_CASE("rounding to the grid goes towards zero", "[grid]") {
  CHECK(rounded({0.25f, -0.3f, 0.5f, 0.1f, -0.1f}, 1.0, 1.0, 8) ==
        std::vector<std::int32_t>{2, -2, 4, 0, 0});
  CHECK(rounded({3.0f, -4.0f}, 0.2, 1.0, 100) == std::vector<std::int32_t>{60, -80});
}

TEST_CASE("all instruction sets make the same cells, and add them up alike", "[grid]") {
  // HostileRows of all sizes, some with what is not finite; the largest cell there is and the first that is
  // too long. Expected: the definition, one number after the other.
  constexpr double kLevels = 67108864.0, kScale = 3e7;
  HostileRows rows;
  std::vector<std::vector<float>> inputs{
      {}, {0x1p26f, -0x1p26f}, {0x1.000002p26f, 1.0f}, {1.0f, NAN}};
  for (int i = 0; i < 300; ++i) inputs.push_back(rows.next());
  const auto variants = core::cell_kernels();
  CHECK(variants.size() == static_cast<std::size_t>(instruction_set()));
  CHECK(variants.back().instruction_set == "plain");
  // A whole block of the largest cells that a grid has: the sum is 2^63 and more than a signed one holds.
  const std::vector<std::int32_t> longest(core::CellKernels::kBlock,
                                          -static_cast<std::int32_t>(kMostGridLevels));
  for (const core::CellKernels& variant : variants) {
    CHECK(variant.squares(longest) ==
          core::CellKernels::kBlock * kMostGridLevels * kMostGridLevels);
  }
  int misfits = 0;
  for (const std::vector<float>& input : inputs) {
    for (const double scale : {1.0, kScale}) {
      bool fit = true;
      std::vector<std::int32_t> cells;
      std::vector<std::int64_t> sums;
      for (const float x : input) {
        const double product = std::trunc(scale * static_cast<double>(x));
        const bool fits =
            std::isfinite(product) && std::abs(scale * static_cast<double>(x)) <= kLevels;
        fit = fit && fits;
        cells.push_back(fits ? static_cast<std::int32_t>(product) : 0);
        sums.push_back(cells.back() - (std::int64_t{1} << 40));
      }
      misfits += fit ? 0 : 1;
      for (const core::CellKernels& variant : variants) {
        INFO(variant.instruction_set);
        std::vector<std::int32_t> made(input.size(), 77);
        std::vector<std::int64_t> sum(input.size(), -(std::int64_t{1} << 40));
        CHECK(variant.round(input, scale, kLevels, made) == fit);
        CHECK(made == cells);
        variant.add(made, sum);
        CHECK(sum == sums);
        const auto block =
            std::span(cells).first(std::min(cells.size(), core::CellKernels::kBlock));
        std::uint64_t squares = 0;
        for (const std::int64_t cell : block) squares += static_cast<std::uint64_t>(cell * cell);
        CHECK(variant.squares(block) == squares);
      }
    }
  }
  CHECK(misfits > 50);  // both answers are seen
  CHECK(misfits < 500);
}

TEST_CASE("whatever the factors, a contribution on the grid is within the bound, exactly",
          "[grid][privacy][long]") {
  // Factors that no core would give: the bound must not rest on them, or on any rounding.
  HostileRows rows;
  const int count = trials(200'000, "contributions");
  for (int trial = 0; trial < count; ++trial) {
    const auto row = rows.next();
    const double clip_norm = std::exp2(rows.real(-60.0, 60.0));
    const std::uint64_t levels = 1 + rows.integer() % (kMostGridLevels >> rows.integer() % 28);
    const double norm = std::sqrt(core::squared_norm_at_most(row));
    const double factors[] = {clip_norm / norm,
                              clip_norm / norm * rows.real(0.99, 1.01),
                              1.0,
                              std::exp2(rows.real(-300.0, 300.0)),
                              -1.0,
                              std::numeric_limits<double>::infinity(),
                              std::nan("")};
    for (const double factor : factors) {
      REQUIRE(is_within(rounded(row, factor, clip_norm, levels), levels));
    }
  }
}

TEST_CASE("clipped as a run clips it, a contribution keeps all but the fraction of a cell",
          "[grid][privacy][long]") {
  HostileRows rows;
  int clipped = 0;
  const int count = trials(200'000, "contributions");
  for (int trial = 0; trial < count; ++trial) {
    const auto row = rows.next();
    const double clip_norm = std::exp2(rows.real(-30.0, 30.0));
    const std::uint64_t levels = 1 + rows.integer() % (kMostGridLevels >> rows.integer() % 28);
    const auto cells = clipped_cells(row, clip_norm, levels);
    REQUIRE(is_within(cells, levels));
    // The exact cells, by another way: long double from the row.
    long double squares = 0.0L;
    for (const float x : row) squares += static_cast<long double>(x) * x;
    if (!std::isfinite(static_cast<double>(squares))) {
      REQUIRE(cells == std::vector<std::int32_t>(row.size(), 0));
      continue;
    }
    const long double norm = std::sqrt(squares);
    clipped += norm > clip_norm ? 1 : 0;
    const long double scale =
        norm > clip_norm ? levels / norm : levels / static_cast<long double>(clip_norm);
    const double slack = 1e-12 * static_cast<double>(levels);
    double most = 0.0, least = 0.0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double exact = static_cast<double>(scale * row[i]);
      most = std::max(most, std::abs(cells[i]) - std::abs(exact) - slack);
      least = std::min(least, std::abs(cells[i]) - std::abs(exact) + slack);
    }
    REQUIRE(most <= 0.0);
    REQUIRE(least > -1.0);
  }
  CHECK(clipped > count / 20);
}

TEST_CASE("what is not finite contributes nothing to a sum on the grid", "[grid][privacy]") {
  const float nan_row = 1.0f, infinite_row = 2.0f, minus_infinite_row = 3.0f;
  const Dataset data = make_data(2, {30, 40, 100, 100, 100, 100, 100, 100, 5, 0},
                                 {0, nan_row, infinite_row, minus_infinite_row, 0});
  // (30, 40) is clipped to length 10: a hair below (6, 8).
  CHECK(released_cells(sum_of(data, all_rows(data), 10.0, 10)) ==
        std::vector<std::int64_t>{5 + 5, 7});
}

TEST_CASE("sums on the grid are exact, on any number of threads", "[grid]") {
  constexpr std::size_t kSize = 3 * core::kDiscreteChunk + 7, kRows = 700;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> features(kRows * kSize);
  for (float& x : features) x = normal(random);
  const Dataset data = make_data(kSize, features, std::vector<float>(kRows, 0.0f));
  constexpr std::uint64_t kLevels = 1000;
  std::vector<std::int64_t> expected(kSize);
  for (std::size_t row = 0; row < kRows; ++row) {
    const auto begin = features.begin() + static_cast<std::ptrdiff_t>(row * kSize);
    const auto cells = clipped_cells({begin, begin + kSize}, 1000.0, kLevels);
    for (std::size_t i = 0; i < kSize; ++i) expected[i] += cells[i];
  }
  CHECK(*std::max_element(expected.begin(), expected.end()) > 50);
  for (const int threads : {1, 2, 5}) {
    const auto executor = core::make_executor(threads);
    CHECK(released_cells(sum_of(data, all_rows(data), 1000.0, kLevels, *executor), *executor) ==
          expected);
  }
}

TEST_CASE("an empty batch on the grid is the zero vector", "[grid]") {
  const Dataset data = make_data(3, {1, 2, 3}, {0});
  CHECK(released_cells(sum_of(data, {}, 10.0, 10)) == std::vector<std::int64_t>(3, 0));
}

TEST_CASE("the noise on the grid has the scale that is promised", "[grid][privacy]") {
  // z = 1.5 on 1000 levels of a bound of 4, divided by 10. Six standard errors of a standard
  // deviation: false alarm below 1e-8.
  constexpr std::size_t kSize = 100'000;
  const Dataset data = make_data(kSize, std::vector<float>(kSize, 0.0f), {0.0f});
  const auto aggregator = on_grid(1000, 1.5);
  Mechanism mechanism(aggregator, RandomKey::from_seed(8), serial);
  const Released released =
      mechanism.release(sum_of(data, {}, 4.0, 1000), kZeroOut,
                        paid(core::grid_release_event(1000, 1500, kZeroOut)), 10.0);
  CHECK_THAT(released.noise_stddev(), WithinRel(0.6, 1e-12));
  double squares = 0.0, off_grid = 0.0;
  for (const float x : released.values()) {
    squares += static_cast<double>(x) * x;
    const double cells = static_cast<double>(x) * 10.0 / 0.004;
    off_grid = std::max(off_grid, std::abs(cells - std::round(cells)));
  }
  CHECK(off_grid < 1e-2);  // 6000 cells and more, shown as floats
  CHECK_THAT(std::sqrt(squares / kSize), WithinRel(0.6, 6.0 / std::sqrt(2.0 * kSize)));
}

TEST_CASE("the noise in cells is never less than promised", "[grid][privacy]") {
  CHECK(sigma_in_cells(1.0, 1024) == 1024);
  CHECK(sigma_in_cells(1.0 + 0x1p-52, 1024) == 1025);
  CHECK(sigma_in_cells(1.2345, 1000) == 1235);
  // The double 0.1 is a little more than a tenth, so ten of it are more than 1, though the product
  // in double is 1.
  CHECK(sigma_in_cells(0.1, 10) == 2);
  CHECK(sigma_in_cells(1e-300, kMostGridLevels) == 1);
  CHECK_THROWS_WITH(sigma_in_cells(0x1p25, kMostGridLevels), ContainsSubstring("2^52"));
  CHECK_THROWS_AS(sigma_in_cells(std::numeric_limits<double>::infinity(), 1), ConfigError);
}

TEST_CASE("a release on the grid is charged as zCDP, with its rounded noise", "[grid][privacy]") {
  // (levels / sigma)^2 / 2, and four times that where one example is exchanged for another.
  const auto rho = [](double multiplier, std::uint64_t levels, Adjacency adjacency) {
    const auto events = core::release_events(on_grid(levels, multiplier), 3, adjacency);
    CHECK(events == std::vector<Event>(3, events[0]));
    return std::get<ZcdpEvent>(events[0].kind()).rho;
  };
  for (const Adjacency adjacency : {kZeroOut, Adjacency::add_or_remove_one}) {
    CHECK_THAT(rho(2.0, 1024, adjacency), WithinRel(0.125, 1e-15));
    CHECK(rho(2.0, 1024, adjacency) >= 0.125);
    CHECK_THAT(rho(1.2345, 1000, adjacency), WithinRel(0.5 * 1e6 / (1235.0 * 1235.0), 1e-14));
  }
  CHECK_THAT(rho(2.0, 1024, Adjacency::replace_one), WithinRel(0.5, 1e-15));
  // Never below the exact quotient: 2 rho sigma^2 >= levels^2, in long double.
  for (std::uint64_t sigma = 1; sigma < 1'000'000; sigma = sigma * 3 / 2 + 1) {
    const auto event = core::grid_release_event(4097, sigma, kZeroOut);
    const long double twice = 2.0L * std::get<ZcdpEvent>(event.kind()).rho;
    const long double s = static_cast<long double>(sigma);
    CHECK(twice * s * s >= 4097.0L * 4097.0L);
    CHECK(twice * s * s <= 4097.0L * 4097.0L * (1.0L + 1e-14L));
  }
}

TEST_CASE("recipes on a grid without a proof are refused", "[grid][privacy]") {
  const auto refused = [](const std::string& why, std::function<void(ReleaseRecipe&)> spoil) {
    const ScriptedAggregator aggregator([spoil](std::uint64_t step) {
      ReleaseRecipe recipe{.keep = 0,
                           .earlier = {},
                           .noise = {{.node = 3 * step, .multiplier = 1.0}},
                           .grid_levels = 16};
      spoil(recipe);
      return recipe;
    });
    CHECK_THROWS_WITH(core::release_events(aggregator, 2, kZeroOut), ContainsSubstring(why));
  };
  refused("2 discrete Gaussians", [](ReleaseRecipe& r) {
    r.noise.push_back({.node = r.noise[0].node + 1, .multiplier = 1.0});
  });
  refused("protects nothing", [](ReleaseRecipe& r) { r.noise.clear(); });
  refused("data of earlier steps", [](ReleaseRecipe& r) { r.keep = 1.0; });
  refused("noise of earlier steps",
          [](ReleaseRecipe& r) { r.earlier = {{.step = 0, .share = 1.0}}; });
  refused("is scaled", [](ReleaseRecipe& r) { r.scale = 0.5; });
  refused("levels per clip norm", [](ReleaseRecipe& r) { r.grid_levels = kMostGridLevels + 1; });
  refused("2^52", [](ReleaseRecipe& r) { r.noise[0].multiplier = 0x1p50; });
}

TEST_CASE("a receipt pays for a release on its grid, under its adjacency, and for no other",
          "[grid][privacy]") {
  const Dataset data = make_data(3, {1, 2, 3}, {0});
  const auto release = [&](const ScriptedAggregator& aggregator, const Event& event,
                           std::uint64_t levels, Adjacency adjacency) {
    Mechanism mechanism(aggregator, RandomKey::from_seed(1), serial);
    return mechanism.release(sum_of(data, {}, 1.0, levels), adjacency, paid(event), 1.0);
  };
  const Event right = core::grid_release_event(16, 16, kZeroOut);
  release(on_grid(16, 1.0), right, 16, kZeroOut);
  CHECK_THROWS_WITH(release(on_grid(16, 1.0), right, 32, kZeroOut),
                    ContainsSubstring("a grid of 16 levels, its sum is on one of 32"));
  CHECK_THROWS_WITH(release(on_grid(16, 1.0), right, 16, Adjacency::replace_one),
                    ContainsSubstring("paid for other noise"));
  CHECK_THROWS_WITH(release(on_grid(16, 0.5), right, 16, kZeroOut),
                    ContainsSubstring("paid for other noise"));
  CHECK_THROWS_WITH(release(on_grid(16, 1.0), Event::gaussian(1.0), 16, kZeroOut),
                    ContainsSubstring("paid for other noise"));
  // Gaussian noise, rounded to the grid, is paid for as what it is.
  release(independent_noise(1.0), Event::gaussian(1.0), 16, kZeroOut);
  CHECK_THROWS_WITH(release(independent_noise(1.0), right, 16, kZeroOut),
                    ContainsSubstring("paid for other noise"));

  SECTION("nor is a sum without a grid released by a recipe on one") {
    const auto aggregator = on_grid(16, 1.0);
    Mechanism mechanism(aggregator, RandomKey::from_seed(1), serial);
    const EchoProgram program(3);
    CHECK_THROWS_WITH(
        mechanism.release(clipped_sum(program, data, {}, 1.0, serial), paid(right), 1.0),
        ContainsSubstring("a grid of 16 levels"));
  }
  SECTION("a step's noise is never used for a second release") {
    const auto aggregator = on_grid(16, 1.0);
    Mechanism mechanism(aggregator, RandomKey::from_seed(1), serial);
    mechanism.release(sum_of(data, {}, 1.0, 16), kZeroOut, paid(right), 1.0);
    CHECK_THROWS_WITH(mechanism.release(sum_of(data, {}, 1.0, 16), kZeroOut, paid(right), 1.0),
                      ContainsSubstring("released before"));
  }
}

TEST_CASE("sums on a grid that cannot be are refused", "[grid]") {
  const Dataset data = make_data(1, {1}, {0});
  const std::vector<std::uint32_t> twice{0, 0};
  CHECK_THROWS_AS(sum_of(data, {}, 1.0, 0), ConfigError);
  CHECK_THROWS_AS(sum_of(data, {}, 1.0, kMostGridLevels + 1), ConfigError);
  CHECK_THROWS_AS(sum_of(data, twice, 1.0, 16), PluginError);
  const EchoProgram program(1);
  const auto groups = one_group(1);
  CHECK_THROWS_WITH(
      core::clipped_sum_on_grid(
          program, data, {},
          {.rule = flat_clipping(), .groups = groups, .clip_norm = 1.0, .count_share = 0.5}, 16,
          serial),
      ContainsSubstring("count"));
}
