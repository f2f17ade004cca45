#include "privgrad/upward.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "support.hpp"

using privgrad::multiply_up;
using privgrad::round_up;
using privgrad::UpwardSum;

namespace {

// The independent source of all expected values: whole numbers of 128 bits, in which sums and
// products of sufficiently small doubles are exact.
__extension__ using Whole = unsigned __int128;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns the bound as a whole number, which it must be.
Whole whole(double x) {
  REQUIRE(x == std::floor(x));
  REQUIRE(x < 0x1p127);
  return static_cast<Whole>(x);
}

UpwardSum sum_of(const std::vector<double>& terms) {
  UpwardSum sum;
  for (const double term : terms) sum.add(term);
  return sum;
}

}  // namespace

TEST_CASE("an upward sum is never below the true sum, and hardly above it", "[upward]") {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    // Terms of 2^54 to 2^107, so that all sums are whole numbers, with up to 53 bits at any place
    // in between.
    UpwardSum sum;
    Whole exact = 0;
    const std::size_t count = 2 + random() % 1000;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t digits = random() >> 11U | std::uint64_t{1} << 52U;
      const unsigned shift = 2 + static_cast<unsigned>(random() % 54);
      sum.add(std::ldexp(static_cast<double>(digits), static_cast<int>(shift)));
      exact += static_cast<Whole>(digits) << shift;
    }
    const Whole bound = whole(sum.total());
    CHECK(bound >= exact);
    CHECK(bound - exact <= exact >> 49U);  // 16 rounding errors
  }
}

TEST_CASE("an upward sum keeps what plain additions lose", "[upward]") {
  // 1 + 2^-54 rounds to 1, and so do a million such additions.
  UpwardSum sum;
  sum.add(1.0);
  for (int i = 0; i < 1000000; ++i) sum.add(0x1p-54);
  CHECK(sum.total() >= 1.0 + 1000000 * 0x1p-54);
  CHECK(sum.total() <= (1.0 + 1000000 * 0x1p-54) * (1.0 + 1e-14));
  // The same with the large number last.
  UpwardSum reversed;
  for (int i = 0; i < 1000000; ++i) reversed.add(0x1p-54);
  reversed.add(1.0);
  CHECK(reversed.total() >= 1.0 + 1000000 * 0x1p-54);
}

TEST_CASE("an upward sum is exact while nothing has to be rounded", "[upward]") {
  CHECK(UpwardSum().total() == 0.0);
  CHECK(sum_of({0.0, 0.0, 0.0}).total() == 0.0);
  CHECK(sum_of({0.1}).total() == 0.1);
  CHECK(sum_of({0.0, 0.1, 0.0}).total() == 0.1);
  CHECK(sum_of({0.5, 0.25, 8.0}).total() == 8.75);
  CHECK(sum_of({5e-324, 5e-324}).total() == 1e-323);
}

TEST_CASE("an upward sum that leaves the doubles is infinite", "[upward]") {
  const double largest = std::numeric_limits<double>::max();
  CHECK(sum_of({1.0, kInfinity, 1.0}).total() == kInfinity);
  CHECK(sum_of({largest, largest}).total() == kInfinity);
  CHECK(sum_of({1.0, std::nan(""), 1.0}).total() == kInfinity);
}

TEST_CASE("round_up makes up for the roundings that it is told of", "[upward]") {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 100000; ++trial) {
    // The product of three numbers of 42 bits has up to 126 bits, and doubles round it twice.
    const std::uint64_t a = random() >> 22U, b = random() >> 22U, c = random() >> 22U;
    const double rounded = static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
    if (rounded < 0x1p80) continue;  // so that the bound is a whole number
    const Whole exact = static_cast<Whole>(a) * b * c;
    const Whole bound = whole(round_up(rounded, 2.0));
    CHECK(bound >= exact);
    CHECK(bound - exact <= exact >> 49U);
  }
}

TEST_CASE("round_up is above its argument, 0 and infinity included", "[upward]") {
  for (const double x : {0.0, 5e-324, 1e-310, 1e-300, 1.0, 1e300}) {
    CHECK(round_up(x, 2.0) > x);
  }
  CHECK(round_up(kInfinity, 2.0) == kInfinity);
  CHECK(round_up(std::numeric_limits<double>::max(), 2.0) == kInfinity);
}

TEST_CASE("multiply_up bounds what many releases cost", "[upward]") {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 100000; ++trial) {
    // A count of up to 64 bits does not fit into a double; the cost has 62 bits.
    const std::uint64_t count = random() >> random() % 32;
    const double cost =
        std::ldexp(static_cast<double>(random() >> 11U | std::uint64_t{1} << 52U), 9);
    const Whole exact = static_cast<Whole>(count) * static_cast<std::uint64_t>(cost);
    const Whole bound = whole(multiply_up(count, cost));
    CHECK(bound >= exact);
    CHECK(bound - exact <= exact >> 49U);
  }
  CHECK(multiply_up(0, 0.3) == 0.0);
  CHECK(multiply_up(0, kInfinity) == 0.0);
  CHECK(multiply_up(7, 0.0) == 0.0);
  CHECK(multiply_up(1, 0.3) == 0.3);
  CHECK(multiply_up(2, kInfinity) == kInfinity);
  // Many releases of the smallest possible cost still have a cost.
  CHECK(multiply_up(3, 5e-324) >= 3 * 5e-324);
}
