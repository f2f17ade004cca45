// Sums of contributions to statistics: how much one row changes them.
#include <cmath>
#include <limits>
#include <vector>

#include "exact_echo.hpp"
#include "fake_program.hpp"
#include "privgrad/data/executor.hpp"
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

/// Writes values that no bound expects: far too long, not finite, or nothing at
/// all.
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

/// A contribution that is stored in memory as a whole; if it has no numbers, it writes nothing.
class Kept : public Contribution {
 public:
  explicit Kept(std::vector<float> numbers) : numbers_(std::move(numbers)) {}
  void piece(std::size_t begin, std::span<float> out) const override {
    if (numbers_.empty()) return;
    const auto first = numbers_.begin() + static_cast<std::ptrdiff_t>(begin);
    std::copy(first, first + static_cast<std::ptrdiff_t>(out.size()), out.begin());
  }

 protected:
  std::vector<float> numbers_;
};

/// Returns what hostile() writes.
std::vector<float> whole_of(std::span<const float> features, std::size_t size) {
  if (features[0] == 0.0f) return {};
  std::vector<float> made(size);
  hostile(features, made);
  return made;
}

/// Makes a different contribution the second time.
class Grows final : public Kept {
 public:
  using Kept::Kept;
  void piece(std::size_t begin, std::span<float> out) const override {
    Kept::piece(begin, out);
    if (begin == 0) ++times_;
    if (times_ > 1)
      for (float& x : out) x *= 1.001f;
  }

 private:
  mutable int times_ = 0;
};

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
  // (0.25, 0, 0) is within 1; (3, 4, 0) is shortened to (0.6, 0.8, 0); a NaN counts as zero.
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
  // One cell less, to be within the bound whatever the rounding.
  constexpr auto kOne = static_cast<std::int64_t>(kExactLevels) - 1;
  CHECK(counts_of({0.0f, 2.0f, 2.0f, -0.0f, 1.0f, 2.0f}) ==
        std::vector<std::int64_t>{2 * kOne, kOne, 3 * kOne});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  for (const float unfit : {3.0f, -1.0f, 0.5f, 1e30f, -1e30f, nan, infinite, -infinite}) {
    CAPTURE(unfit);
    CHECK(counts_of({1.0f, unfit}) == std::vector<std::int64_t>{0, kOne, 0});
  }
  // If it is replaced by a row of another class, two numbers change, by exactly sqrt(2) bounds.
  const auto before = counts_of({0.0f, 1.0f}), after = counts_of({0.0f, 2.0f});
  Wide squares = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto moved = static_cast<std::uint64_t>(std::abs(before[i] - after[i]));
    squares += Wide{moved} * moved;
  }
  CHECK((squares == 2 * Wide{kOne} * Wide{kOne}));
}

TEST_CASE("long contributions are added piece by piece, and the sum is the same", "[statistic]") {
  // The size is no multiple of a piece or of eight, and 70 examples are no multiple of a block.
  constexpr std::size_t kSize = core::kLongContribution + 4099;
  std::vector<float> features;
  for (std::size_t row = 0; row < 70; ++row) {
    for (std::size_t i = 0; i < kWidth; ++i) features.push_back(static_cast<float>(row % 5));
  }
  const Dataset data = rows_of(features);
  const auto in_pieces = [&](const core::PiecesOf& pieces_of, core::ContributionCheck* check) {
    SerialExecutor executor;
    return core::cells_for_testing(
        core::statistic_sum(hostile, data, kSize, 0.5, executor, check, pieces_of));
  };
  const std::vector<std::int64_t> expected = sum_of(hostile, data, kSize, 0.5);
  int asked = 0;
  const core::PiecesOf right = [&](std::span<const float> row) {
    ++asked;
    return std::make_unique<Kept>(whole_of(row, kSize));
  };
  CHECK(in_pieces(right, nullptr) == expected);
  CHECK(asked == 70);
  SECTION("on any number of threads") {
    const core::PiecesOf alone = [&](std::span<const float> row) {
      return std::make_unique<Kept>(whole_of(row, kSize));
    };
    for (const int threads : {2, 5}) {
      const auto executor = core::make_executor(threads);
      CHECK(core::cells_for_testing(core::statistic_sum(hostile, data, kSize, 0.5, *executor,
                                                        nullptr, alone)) == expected);
    }
  }
  SECTION("the look at one row does not change it, whatever the row is") {
    for (std::size_t place = 0; place < 5; ++place) {
      core::ContributionCheck check{.place = place, .program = "echo", .clipping = "echo"};
      CHECK(in_pieces(right, &check) == expected);
      CHECK_FALSE(check.differs);
    }
  }
  SECTION("short ones are not asked for in pieces") {
    asked = 0;
    SerialExecutor executor;
    core::statistic_sum(hostile, data, 70, 0.5, executor, nullptr, right);
    CHECK(asked == 0);
  }
  SECTION("pieces that are not those of the contribution are found by the look at one row") {
    const core::PiecesOf other = [&](std::span<const float> row) {
      std::vector<float> made = whole_of(row, kSize);
      if (!made.empty()) made.back() *= 0.5f;
      return std::make_unique<Kept>(std::move(made));
    };
    core::ContributionCheck check{.place = 3, .program = "halver", .clipping = "halver"};
    CHECK_THROWS_WITH(in_pieces(other, &check),
                      "halver broke its promise: the pieces of an example's contribution are not "
                      "those of the whole");
  }
  SECTION("pieces that grow behind the measured length end the sum") {
    const core::PiecesOf grows = [&](std::span<const float> row) {
      return std::make_unique<Grows>(whole_of(row, kSize));
    };
    CHECK_THROWS_WITH(in_pieces(grows, nullptr),
                      "a statistic broke its promise: it gives a contribution that changes");
  }
  SECTION("a bound that single precision cannot hold is refused, as it is for short ones") {
    SerialExecutor executor;
    for (const double bound : {0.0, -1.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
      for (const std::size_t size : {kWidth, kSize})
        CHECK_THROWS_AS(core::statistic_sum(hostile, data, size, bound, executor, nullptr, right),
                        ConfigError);
    }
  }
  SECTION("and so does no contribution at all") {
    CHECK_THROWS_WITH(in_pieces([](std::span<const float>) { return nullptr; }, nullptr),
                      ContainsSubstring("it gives no contribution in pieces"));
  }
  SECTION("and so does none for the look at one row") {
    asked = 0;
    const core::PiecesOf once = [&](std::span<const float> row) {
      const bool is_look = ++asked > 70;
      return is_look ? nullptr : std::make_unique<Kept>(whole_of(row, kSize));
    };
    core::ContributionCheck check{.place = 3, .program = "forgetful", .clipping = "forgetful"};
    CHECK_THROWS_WITH(in_pieces(once, &check),
                      "forgetful broke its promise: it gives no contribution in pieces");
  }
}
