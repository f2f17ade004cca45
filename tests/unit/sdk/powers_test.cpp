#include "privgrad/powers.hpp"

#include <cmath>

#include "support.hpp"

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
