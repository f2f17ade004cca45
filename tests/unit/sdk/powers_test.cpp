#include "privgrad/powers.hpp"

#include <cmath>

#include "support.hpp"

using privgrad::exponential;
using privgrad::one_minus_power;

TEST_CASE("1 - base^n is that of long double, also for a base near 1", "[powers]") {
  for (const double base : {0.0, 0.3, 0.9, 0.999, 0.9999999, 1.0 - 0x1p-40, 1.0}) {
    for (const std::uint64_t n : {0ull, 1ull, 2ull, 3ull, 7ull, 1000ull, 1234567ull, 1ull << 40}) {
      // expm1(n log1p(base - 1)) in long double: an independent formula with 11 more bits.
      const long double rest = 1.0L - static_cast<long double>(base);
      const long double expected =
          n == 0 ? 0.0L : -std::expm1(static_cast<long double>(n) * std::log1p(-rest));
      CHECK_THAT(one_minus_power(base, n), WithinRel(static_cast<double>(expected), 0x1p-46));
    }
  }
}

TEST_CASE("e^x is that of long double", "[powers]") {
  CHECK(exponential(0.0) == 1.0);
  for (int i = -7000; i <= 7000; ++i) {
    const double x = 0.1 * i + 0x1p-20 * (i % 17);
    if (std::fabs(x) > 700.0) continue;
    const auto expected = static_cast<double>(std::exp(static_cast<long double>(x)));
    REQUIRE_THAT(exponential(x), WithinRel(expected, 0x1p-51));
  }
}

TEST_CASE("e^x has the bits of its formula, whatever the C library makes of it", "[powers]") {
  // These values were recorded once; if a processor, compiler or C library changed one, the clip
  // norms of runs would change.
  CHECK(exponential(1.0) == 0x1.5bf0a8b14576ap+1);
  CHECK(exponential(-0.1) == 0x1.cf46d99d52b3ap-1);
  CHECK(exponential(-10.0) == 0x1.7cd79b5647c9ap-15);
}
