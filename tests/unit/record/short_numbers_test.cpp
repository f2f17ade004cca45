#include "privgrad/record/short_numbers.hpp"

#include <cmath>
#include <limits>
#include <random>

#include "support.hpp"

namespace {

using namespace privgrad;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("short numbers: a bound is never shown below its value, nor a lower bound above it") {
  CHECK(core::fixed_bound(3.004, 2) == "3.01");
  CHECK(core::fixed_bound(std::nextafter(3.0, 4.0), 2) == "3.01");
  CHECK(core::fixed_bound(3.0, 2) == "3.00");
  CHECK(core::fixed_bound(0.29, 2) == "0.29");  // 100 * 0.29 is below 29
  CHECK(core::fixed_bound(9.996, 2) == "10.00");
  CHECK(core::fixed_bound(1e-300, 2) == "0.01");
  CHECK(core::fixed_bound(0.0, 2) == "0.00");
  CHECK(core::fixed_bound(kInfinity, 2) == "inf");
  CHECK(core::fixed_lower_bound(3.006, 2) == "3.00");
  CHECK(core::fixed_lower_bound(std::nextafter(3.0, 0.0), 2) == "2.99");
  CHECK(core::fixed_lower_bound(0.29, 2) == "0.29");
  CHECK(core::fixed_lower_bound(1e-300, 2) == "0.00");
  CHECK(core::fixed_lower_bound(0.0, 2) == "0.00");
  CHECK(core::short_bound(1.23456749, 6) == "1.23457");
  CHECK(core::short_lower_bound(1.23456751, 6) == "1.23456");
}

TEST_CASE("short numbers: a bound is shown less than one unit of its last digit away") {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-6.0, 4.0);
  for (int i = 0; i < 10000; ++i) {
    const double value = std::pow(10.0, exponent(random));
    INFO(value);
    for (const int decimals : {2, 4}) {
      const double unit = std::pow(10.0, -decimals) * (1.0 + 1e-9);
      const double above = std::stod(core::fixed_bound(value, decimals));
      const double below = std::stod(core::fixed_lower_bound(value, decimals));
      CHECK((above >= value && above - value <= unit));
      CHECK((below <= value && value - below <= unit));
    }
  }
}
