#include "privgrad/trust/exact_sum.hpp"

#include <cmath>
#include <random>
#include <vector>

#include "exact_echo.hpp"
#include "fake_aggregator.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/trust/joint_release.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/testing.hpp"
#include "support.hpp"

using namespace privgrad;
using core::BoundedOnGrid;
using core::kExactLevels;

namespace {

using Cells = std::vector<std::int64_t>;
using Rows = std::vector<std::uint32_t>;
__extension__ using Wide = unsigned __int128;

Rows all_of(const Dataset& data) {
  Rows rows(data.rows());
  for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
  return rows;
}

/// Returns rows of all sizes from 1e-30 to 1e30; every seventh is not finite.
Dataset rows_of_all_sizes(std::size_t width, std::size_t count) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  std::vector<float> features, targets;
  for (std::size_t row = 0; row < count; ++row) {
    const float size = std::pow(10.0f, 10.0f * static_cast<float>(random() % 7) - 30.0f);
    for (std::size_t i = 0; i < width; ++i) features.push_back(size * normal(random));
    targets.push_back(row % 7 == 6 ? static_cast<float>(1 + row % 3) : 0.0f);
  }
  return Dataset(ExampleShape{{width}, 0}, std::move(features), std::move(targets));
}

std::vector<ParameterGroup> pairs(std::size_t count) {
  std::vector<ParameterGroup> groups;
  for (std::size_t i = 0; i < count; ++i)
    groups.push_back({"layers." + std::to_string(i), 2 * i, 2});
  return groups;
}

Cells cells_of(const BoundedOnGrid& sum) { return core::cells_for_testing(sum); }

Wide squared_length(const Cells& cells) {
  Wide sum = 0;
  for (const std::int64_t cell : cells)
    sum += static_cast<Wide>(std::abs(cell)) * static_cast<Wide>(std::abs(cell));
  return sum;
}

constexpr Wide kWhole = static_cast<Wide>(kExactLevels) * kExactLevels;

Cells minus(Cells a, const Cells& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

/// Calls body with a program that computes rows, and with one that computes cells.
template <class Body>
void for_both(std::size_t groups, const Body& body) {
  body(static_cast<const Program&>(EchoProgram(2 * groups)));
  body(static_cast<const Program&>(ExactEcho(groups)));
}

}  // namespace

TEST_CASE("without an example, the exact sum is less by that example's cells alone",
          "[exact][privacy]") {
  constexpr std::size_t kGroups = 3;
  for_both(kGroups, [](const Program& program) {
    for (const std::size_t count : {1u, 2u, 63u, 64u, 65u, 600u}) {
      const Dataset data = rows_of_all_sizes(2 * kGroups, count);
      const Rows all = all_of(data);
      const Cells whole = cells_of(exact_sum(program, data, all, 0.7, serial));
      for (std::uint32_t row = 0; row<count; row += count> 100 ? 37 : 1) {
        Rows others = all;
        others.erase(others.begin() + row);
        const Cells own = cells_of(exact_sum(program, data, Rows{row}, 0.7, serial));
        REQUIRE(minus(whole, cells_of(exact_sum(program, data, others, 0.7, serial))) == own);
        REQUIRE(squared_length(own) <= kWhole);
      }
    }
  });
}

TEST_CASE("exact sums do not depend on order, threads or passes", "[exact]") {
  constexpr std::size_t kGroups = 2;
  const Dataset data = rows_of_all_sizes(2 * kGroups, 700);
  Rows rows = all_of(data);
  for (const double share : {0.0, 0.25}) {
    for_both(kGroups, [&](const Program& program) {
      const Cells expected =
          cells_of(exact_sum(program, data, rows, 1.0, serial, 5000, nullptr, share));
      std::shuffle(rows.begin(), rows.end(), std::mt19937(5));
      for (const int threads : {1, 3}) {
        const auto executor = core::make_executor(threads);
        core::SumMemory memory;
        for (const std::size_t most_rows : {1u, 7u, 0u, 5000u})
          CHECK(cells_of(exact_sum(program, data, rows, 1.0, *executor, most_rows, &memory,
                                   share)) == expected);
      }
    });
  }
}

TEST_CASE("whatever a rule says, no example's cells are longer than the bound",
          "[exact][privacy]") {
  constexpr std::size_t kGroups = 3;
  const Dataset data = rows_of_all_sizes(2 * kGroups, 70);
  const auto groups = pairs(kGroups);
  const ScriptedClipping apart([](auto squares, double clip_norm, auto factors) {
    for (std::size_t g = 0; g < factors.size(); ++g)  // too long, by a factor of sqrt(3)
      factors[g] = clip_norm / std::sqrt(squares[g]);
  });
  const ScriptedClipping huge(
      [](auto, double, auto factors) { std::fill(factors.begin(), factors.end(), 1e40); });
  const ScriptedClipping broken([](auto, double, auto factors) {
    factors[0] = -1.0;
    factors[1] = std::numeric_limits<double>::quiet_NaN();
    factors[2] = std::numeric_limits<double>::infinity();
  });
  for (const Clipping* rule :
       {static_cast<const Clipping*>(&flat_clipping()), static_cast<const Clipping*>(&apart),
        static_cast<const Clipping*>(&huge), static_cast<const Clipping*>(&broken)}) {
    for (const double clip_norm : {core::kSmallestClipNorm, 0.5, core::kLargestClipNorm}) {
      for (const double share : {0.0, 0.3}) {
        const core::Clip clip{
            .rule = *rule, .groups = groups, .clip_norm = clip_norm, .count_share = share};
        for (std::uint32_t row = 0; row < data.rows(); ++row) {
          const Cells own =
              cells_of(core::exact_sum(ExactEcho(kGroups), data, Rows{row}, clip, serial));
          REQUIRE(squared_length(own) <= kWhole);
          // A contribution that is too long is scaled to almost the largest allowed length.
          const bool is_finite = row % 7 != 6;
          if (rule == &huge && is_finite && clip_norm == 0.5)
            REQUIRE(squared_length(own) >= kWhole - kWhole / 1000000);
        }
      }
    }
  }
}

TEST_CASE("a clipped contribution is the gradient on the grid, to one cell", "[exact]") {
  // (3, 4) clipped to 2.5 is (1.5, 2), with 2^26 / 2.5 cells per unit: rounded down by at most one
  // cell.
  const Dataset data(ExampleShape{{2}, 0}, {3.0f, 4.0f}, {0.0f});
  for_both(1, [&](const Program& program) {
    const BoundedOnGrid sum = exact_sum(program, data, Rows{0}, 2.5, serial);
    CHECK(sum.l2_bound() == 2.5);
    CHECK(sum.levels() == kExactLevels);
    const Cells cells = cells_of(sum);
    const auto unit = static_cast<double>(kExactLevels) / 2.5;
    CHECK_THAT(static_cast<double>(cells[0]), WithinAbs(1.5 * unit, 1.0));
    CHECK_THAT(static_cast<double>(cells[1]), WithinAbs(2.0 * unit, 1.0));
  });
}

TEST_CASE("each group is clipped by its own length", "[exact][clip]") {
  // A short first pair and a long second pair: flat clipping keeps their ratio, whichever is first.
  const Dataset data(ExampleShape{{4}, 0}, {0.0f, 0.5f, 0.0f, 12.0f}, {0.0f});
  const auto groups = pairs(2);
  const core::Clip clip{.rule = flat_clipping(), .groups = groups, .clip_norm = 1.0};
  const auto whole = static_cast<double>(kExactLevels);
  const double norm = std::sqrt(0.25 + 144.0);
  for_both(2, [&](const Program& program) {
    const Cells cells = cells_of(core::exact_sum(program, data, Rows{0}, clip, serial));
    CHECK_THAT(static_cast<double>(cells[1]), WithinAbs(0.5 / norm * whole, 2.0));
    CHECK_THAT(static_cast<double>(cells[3]), WithinAbs(12.0 / norm * whole, 2.0));
  });
}

TEST_CASE("lengths that a program forgets, or that are too long, leave the example out",
          "[exact][privacy]") {
  const Dataset data(ExampleShape{{2}, 0}, {3.0f, 4.0f}, {0.0f});
  for (const auto fault : {ExactEcho::Fault::forgets_lengths, ExactEcho::Fault::too_long})
    CHECK(cells_of(exact_sum(ExactEcho(1, fault), data, Rows{0}, 2.5, serial)) == Cells{0, 0});
}

TEST_CASE("the count has its share of an example's squared length", "[exact][privacy]") {
  const double share = core::count_share(1.0, 2.0);  // 1 / 4
  const auto count = static_cast<std::int64_t>(core::count_cells(share));
  CHECK(count == static_cast<std::int64_t>(kExactLevels / 4));
  const Dataset data(ExampleShape{{2}, 0}, {3.0f, 4.0f, 0.3f, 0.4f}, {0.0f, 0.0f});
  for_both(1, [&](const Program& program) {
    const auto sum_of = [&](const Rows& rows) {
      return cells_of(exact_sum(program, data, rows, 1.0, serial, 0, nullptr, share));
    };
    const Cells clipped = sum_of({0}), unclipped = sum_of({1});
    REQUIRE(clipped.size() == 3);
    CHECK(clipped[2] == -count);
    CHECK(unclipped[2] == count);
    CHECK(squared_length(clipped) <= kWhole);
    CHECK(squared_length(clipped) >= kWhole - kWhole / 1000000);
    CHECK(minus(sum_of({0, 1}), clipped) == unclipped);
  });
}

TEST_CASE("beside its count, an example's cells are no longer than what is left",
          "[exact][privacy]") {
  // A program that uses the whole allowed length.
  const Dataset data(ExampleShape{{2}, 0}, {3.0f, 4.0f}, {0.0f});
  const Cells own = cells_of(exact_sum(ExactEcho(1, ExactEcho::Fault::longest), data, Rows{0}, 1.0,
                                       serial, 0, nullptr, 0.25));
  CHECK(own[0] > 0);
  CHECK(squared_length(own) <= kWhole);
}

TEST_CASE("a small count is a whole number of cells, with no less noise than was asked for",
          "[exact]") {
  const double share = core::count_share(1.0, 1e5);  // 5e-6, or 335.5 cells
  CHECK(core::count_cells(share) == 335);
  CHECK(1.0 / (2.0 * share) >= 1e5);
  CHECK(share == 335.0 / static_cast<double>(kExactLevels));
  CHECK_THROWS_AS(core::count_share(1.0, 0x1p26), ConfigError);
}

TEST_CASE("neighbours that are made to move a float32 sum move the exact one by one clip norm",
          "[exact][privacy]") {
  // 2^k + 1 rows with gradient -1, and then rows just under half of the resolution of a float32 sum
  // of that size, with the opposite sign: either all of them are lost in the sum or none, depending
  // on whether row 0 is present. In float32 the sum changes by 54 clip norms at 60 000 rows, and by
  // 14 867 at a million.
  for (const std::size_t count : {10'000u, 60'000u, 1'000'000u}) {
    const auto half = std::size_t{1} << static_cast<unsigned>(std::log2(count / 2));
    const auto tiny = static_cast<float>(0.98 * std::ldexp(1.0, std::ilogb(half) - 24));
    std::vector<float> features(count, tiny);
    std::fill_n(features.begin(), half + 1, -1.0f);
    float with = 0.0f, without = 0.0f;
    for (std::size_t i = 0; i < count; ++i) {
      with += features[i];
      if (i > 0) without += features[i];
    }
    CHECK(std::abs(with - without) > 2.0f);  // the data are as constructed

    const Dataset data(ExampleShape{{1}, 0}, std::move(features), std::vector<float>(count));
    const EchoProgram program(1);
    Rows rows = all_of(data);
    const Cells whole = cells_of(exact_sum(program, data, rows, 1.0, serial));
    rows.erase(rows.begin());
    const Cells others = cells_of(exact_sum(program, data, rows, 1.0, serial));
    const std::int64_t moved = others[0] - whole[0];
    CHECK(moved <= static_cast<std::int64_t>(kExactLevels));
    CHECK(moved >= static_cast<std::int64_t>(kExactLevels) - 1);
  }
}

TEST_CASE("rows of an aligned batch each move the exact sum by their own cells",
          "[exact][privacy]") {
  // Clipped gradients in one direction: in float32 a row changes the sum by 1.57 clip norms at a
  // million rows, and by 8.4 at four million.
  for (const std::size_t count : {100'000u, 4'000'000u}) {
    std::vector<float> features(count);
    for (std::size_t i = 0; i < count; ++i)
      features[i] = 1.0f + 1e-3f * static_cast<float>(i % 1009);
    const Dataset data(ExampleShape{{1}, 0}, std::move(features), std::vector<float>(count));
    const EchoProgram program(1);
    const Rows all = all_of(data);
    const Cells whole = cells_of(exact_sum(program, data, all, 1.0, serial));
    for (const std::uint32_t row : {0u, 12'345u, static_cast<std::uint32_t>(count - 1)}) {
      Rows others = all;
      others.erase(others.begin() + row);
      const Cells less = cells_of(exact_sum(program, data, others, 1.0, serial));
      CHECK(minus(whole, less) == cells_of(exact_sum(program, data, Rows{row}, 1.0, serial)));
      CHECK(static_cast<std::uint64_t>(std::abs(whole[0] - less[0])) <= kExactLevels);
    }
  }
}

TEST_CASE("groups that are not the program's are refused", "[clip]") {
  const Dataset data = rows_of_all_sizes(6, 3);
  const auto refused = [&](const Program& program, std::vector<ParameterGroup> groups) {
    const core::Clip clip{.rule = flat_clipping(), .groups = groups, .clip_norm = 1.0};
    CHECK_THROWS_AS(core::exact_sum(program, data, {}, clip, serial), PluginError);
    CHECK_THROWS_AS(core::clipped_sum(program, data, {}, clip, serial), PluginError);
  };
  refused(ExactEcho(3), pairs(2));
  refused(ExactEcho(3), {{"layers.0", 0, 6}});
  refused(EchoProgram(6), pairs(2));
  refused(EchoProgram(5), {{"layers.0", 0, 2}, {"layers.1", 3, 3}});  // 5 parameters, but a gap
}

TEST_CASE("a sampler that repeats or invents rows is caught by exact sums, too",
          "[exact][privacy]") {
  const Dataset data = rows_of_all_sizes(2, 5);
  CHECK_THROWS_AS(exact_sum(ExactEcho(1), data, Rows{0, 1, 0}, 1.0, serial), PluginError);
  CHECK_THROWS_AS(exact_sum(ExactEcho(1), data, Rows{5}, 1.0, serial), PluginError);
}

TEST_CASE("the largest whole root", "[exact]") {
  for (const std::uint64_t root : {0ull, 1ull, 2ull, 67108863ull, 67108864ull, 4294967295ull}) {
    CHECK(core::whole_root(root * root) == root);
    if (root > 0) CHECK(core::whole_root(root * root - 1) == root - 1);
    if (root > 0) CHECK(core::whole_root(root * root + 1) == root);
  }
}
