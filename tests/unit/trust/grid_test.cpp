#include "privgrad/trust/grid.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "fake_clipping.hpp"
#include "privgrad/instruction_set.hpp"
#include "privgrad/trust/cell_kernels.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "support.hpp"
#include "trials.hpp"
#include "trust_support.hpp"

using namespace privgrad;
using core::kMostGridLevels;
using core::round_to_grid;

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

/// Checks the length exactly.
bool is_within(const std::vector<std::int32_t>& cells, std::uint64_t levels) {
  Wide squares = 0;
  for (const std::int64_t cell : cells) squares += static_cast<Wide>(cell * cell);
  return squares <= static_cast<Wide>(levels) * levels;
}

/// Returns the cells of one row, clipped flat as in a run.
std::vector<std::int32_t> clipped_cells(const std::vector<float>& row, double clip_norm,
                                        std::uint64_t levels) {
  const auto groups = one_group(row.size());
  const std::vector<double> squared_norm{core::squared_norm_at_most(row)};
  std::vector<double> factor(1);
  core::clip_factors({.rule = flat_clipping(), .groups = groups, .clip_norm = clip_norm},
                     squared_norm, factor);
  return rounded(row, factor[0], clip_norm, levels);
}

/// Rows that a faulty backend might return: of all sizes, some with denormals or values that are
/// not finite.
class HostileRows {
 public:
  std::vector<float> next() {
    std::vector<float> row(1 + random_() % 300);
    const int kind = static_cast<int>(random_() % 6);
    const float size = std::ldexp(1.0f, static_cast<int>(random_() % 80) - 40);
    for (float& x : row) {
      if (kind == 0) {
        x = std::bit_cast<float>(static_cast<std::uint32_t>(random_()));  // any bits
      } else if (kind == 1) {
        x = std::bit_cast<float>(static_cast<std::uint32_t>(random_() % 0x00800000));  // denormal
      } else if (kind == 2) {
        x = std::numeric_limits<float>::max();
      } else if (kind == 3) {
        x = size;  // all equal: many coordinates at the edge of a cell
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

}  // namespace

TEST_CASE("rounding to the grid goes towards zero", "[grid]") {
  CHECK(rounded({0.25f, -0.3f, 0.5f, 0.1f, -0.1f}, 1.0, 1.0, 8) ==
        std::vector<std::int32_t>{2, -2, 4, 0, 0});
  CHECK(rounded({3.0f, -4.0f}, 0.2, 1.0, 100) == std::vector<std::int32_t>{60, -80});
}

TEST_CASE("all instruction sets make the same cells, and add them up alike", "[grid]") {
  // Rows of all sizes, some with values that are not finite; also the largest allowed cell and the
  // first that is too long. Expected values come from the definition, one number after another.
  constexpr double kLevels = 67108864.0, kScale = 3e7;
  HostileRows rows;
  std::vector<std::vector<float>> inputs{
      {}, {0x1p26f, -0x1p26f}, {0x1.000002p26f, 1.0f}, {1.0f, NAN}};
  for (int i = 0; i < 300; ++i) inputs.push_back(rows.next());
  const auto variants = core::cell_kernels();
  CHECK(variants.size() == static_cast<std::size_t>(instruction_set()));
  CHECK(variants.back().instruction_set == "plain");
  // A whole block of the largest cells of a grid: the sum is 2^63, which exceeds signed numbers.
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
  CHECK(misfits > 50);  // both answers occur
  CHECK(misfits < 500);
}

TEST_CASE("whatever the factors, a contribution on the grid is within the bound, exactly",
          "[grid][privacy][long]") {
  // The core would never use these factors: the bound must not depend on them, or on rounding.
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
    // Computes the exact cells differently: in long double from the row.
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
