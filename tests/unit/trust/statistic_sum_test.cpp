// Sums of contributions to statistics: what one row moves them by.
#include <cmath>
#include <limits>
#include <vector>

#include "exact_echo.hpp"
#include "fake_program.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/row_sum.hpp"
#include "privgrad/trust/testing.hpp"
#include "support.hpp"

using namespace privgrad;
using core::kExactLevels;

namespace {

constexpr std::size_t kWidth = 3;

Dataset rows_of(const std::vector<float>& features) {
  const std::size_t rows = features.size() / kWidth;
  return Dataset({{kWidth}, 0}, features, std::vector<float>(rows, 0.0f));
}

std::vector<std::int64_t> sum_of(const core::ContributionOf& of_row, const Dataset& data,
                                 std::size_t size, double bound,
                                 core::ContributionCheck* check = nullptr) {
  SerialExecutor executor;
  return core::cells_for_testing(core::statistic_sum(of_row, data, size, bound, executor, check));
}

/// Adds what no bound expects: far too long, not finite, or nothing at all.
void hostile(std::span<const float> features, std::span<float> out) {
  const auto kind = static_cast<int>(features[0]);
  if (kind == 0) return;  // leaves everything unwritten
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = kind == 1   ? 1e30f
             : kind == 2 ? std::numeric_limits<float>::infinity()
             : kind == 3 ? (i % 2 == 0 ? 1.0f : -1.0f)
                         : std::numeric_limits<float>::denorm_min();
  }
}

__extension__ using Wide = unsigned __int128;

}  // namespace

TEST_CASE("one row moves the sum of a statistic by at most the bound, in whole cells",
          "[statistic]") {
  std::vector<float> features;
  for (std::size_t row = 0; row < 100; ++row) {
    for (std::size_t i = 0; i < kWidth; ++i) features.push_back(static_cast<float>(row % 5));
  }
  const std::vector<std::int64_t> all = sum_of(hostile, rows_of(features), 70, 0.5);
  for (std::size_t left_out = 0; left_out < 100; ++left_out) {
    std::vector<float> others = features;
    const auto begin = others.begin() + static_cast<std::ptrdiff_t>(left_out * kWidth);
    others.erase(begin, begin + static_cast<std::ptrdiff_t>(kWidth));
    const std::vector<std::int64_t> rest = sum_of(hostile, rows_of(others), 70, 0.5);
    Wide squares = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto moved = static_cast<std::uint64_t>(std::abs(all[i] - rest[i]));
      squares += Wide{moved} * moved;
    }
    CHECK(squares <= Wide{kExactLevels} * kExactLevels);
  }
}

TEST_CASE("a statistic's sum is that of its contributions, shortened to the bound", "[statistic]") {
  const auto as_it_is = [](std::span<const float> in, std::span<float> out) {
    std::copy(in.begin(), in.end(), out.begin());
  };
  // (0.25, 0, 0) is within 1; (3, 4, 0) is shortened to (0.6, 0.8, 0); a NaN counts as nothing.
  Dataset data = rows_of({0.25f, 0.0f, 0.0f, 3.0f, 4.0f, 0.0f, 1.0f, 2.0f, 3.0f});
  data.features()[8] = std::numeric_limits<float>::quiet_NaN();
  const auto sum = sum_of(as_it_is, data, kWidth, 1.0);
  const auto cells = static_cast<double>(kExactLevels);
  CHECK_THAT(static_cast<double>(sum[0]) / cells, WithinAbs(0.85, 1e-7));
  CHECK_THAT(static_cast<double>(sum[1]) / cells, WithinAbs(0.8, 1e-7));
  CHECK(sum[2] == 0);
}

TEST_CASE("a contribution that follows its neighbours is found by the look at one row",
          "[statistic]") {
  int calls = 0;
  const auto counts = [&calls](std::span<const float>, std::span<float> out) {
    out[0] = static_cast<float>(++calls) * 1e-6f;
  };
  const Dataset data = rows_of(std::vector<float>(30 * kWidth, 1.0f));
  core::ContributionCheck check{.place = 7, .program = "counter", .clipping = "counter"};
  CHECK_THROWS_WITH(sum_of(counts, data, 1, 1.0, &check), ContainsSubstring("counter"));
}

TEST_CASE("a row counts for its class once, and for no class if its target is none",
          "[statistic]") {
  SerialExecutor executor;
  const auto counts_of = [&](const std::vector<float>& targets) {
    return core::cells_for_testing(core::class_sum(targets, 3, executor));
  };
  // Within the bound whatever the roundings: a cell less.
  constexpr auto kOne = static_cast<std::int64_t>(kExactLevels) - 1;
  CHECK(counts_of({0.0f, 2.0f, 2.0f, -0.0f, 1.0f, 2.0f}) ==
        std::vector<std::int64_t>{2 * kOne, kOne, 3 * kOne});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  for (const float unfit : {3.0f, -1.0f, 0.5f, 1e30f, -1e30f, nan, infinite, -infinite}) {
    CAPTURE(unfit);
    CHECK(counts_of({1.0f, unfit}) == std::vector<std::int64_t>{0, kOne, 0});
  }
  // Exchanged for one of another class, a row moves two numbers: sqrt(2) bounds, and no more.
  const auto before = counts_of({0.0f, 1.0f}), after = counts_of({0.0f, 2.0f});
  Wide squares = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto moved = static_cast<std::uint64_t>(std::abs(before[i] - after[i]));
    squares += Wide{moved} * moved;
  }
  CHECK((squares == 2 * Wide{kOne} * Wide{kOne}));
}
