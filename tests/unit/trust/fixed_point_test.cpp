// Products with constants in fixed point, exact to the last unit.
#include "privgrad/trust/fixed_point.hpp"

#include <catch2/catch.hpp>
#include <cstdint>

#include "privgrad/error.hpp"

using namespace privgrad;

namespace {

core::Int128 wide(std::uint64_t high, std::uint64_t low) {
  return static_cast<core::Int128>((static_cast<core::UnsignedInt128>(high) << 64) | low);
}

struct Product {
  std::int64_t constant;
  core::Int128 value, expected;
};

}  // namespace

TEST_CASE("a product in 128 bits is rounded down, to the last unit", "[trust]") {
  // Expected values from Python's whole numbers: (constant * value >> 60) modulo 2^128.
  const Product product = GENERATE(values<Product>({
      {0x2513270e269e0d37, wide(0xfffb7b3a81e74ef5, 0xe8e25d940ed90475),
       wide(0xfff5878e9a40b124, 0x44bce674d0ed5e6)},
      {-0x29ff5ca5f666af28, wide(0xfffece0b11e20b8f, 0x6b0d549b6f03675a),
       wide(0x32316bd65ae8d, 0x6e423224d292cc6f)},
      {-0x30de22499352b5da, wide(0xfffc4c68f9ebdacc, 0xcb1e29c658cda14),
       wide(0xb4e28d0572a34, 0x9595f191552560a7)},
      {-0x1de84152243b6935, wide(0xffed30ed2e44158b, 0xae97ba94d0eda82f),
       wide(0x23285976d209fa, 0x503927c7dd0dc1ea)},
      {-0xfe7af3a5c702ab9, wide(0x1b98d7506bf2ef, 0xc6f877186d76b07e),
       wide(0xffe4911943a5394d, 0xf553227e49059c5f)},
      {0x1c90a9587403e430, wide(0xfff70298cb5c7427, 0x3f98e2774cbd87ad),
       wide(0xffeff3439cc3085d, 0x20f2db9d79e41878)},
      // Just below a whole unit, just above a unit, and exactly a unit.
      {0x1, wide(0, 0x0fffffffffffffff), wide(0, 0)},
      {0x1, wide(0, 0x1000000000000000), wide(0, 1)},
      {0x1, wide(~0ull, 0xefffffffffffffff), wide(~0ull, ~1ull)},
      {0x1, wide(~0ull, ~0ull), wide(~0ull, ~0ull)},
      {-0x1, wide(0, 1), wide(~0ull, ~0ull)},
      // -1, the largest constants, and digits that are all ones.
      {-0x1000000000000000, wide(0, ~0ull), wide(~0ull, 1)},
      {0x3fffffffffffffff, wide(0, ~0ull), wide(3, 0xffffffffffffffec)},
      {-0x4000000000000000, wide(~0ull, 1), wide(3, 0xfffffffffffffffc)},
      {-0xccccccccccccccd, wide(0x1000000000, 1), wide(0xfffffff333333333, 0x333332ffffffffff)},
      {0xfffffffffffffff, wide(0xffffbfffffffffff, ~0ull),
       wide(0xffffc00000000000, 0x3ffffffffffff)},
  }));
  CHECK(core::times(product.constant, product.value) == product.expected);
  if (core::is_fraction(product.constant)) {
    CHECK(core::times_fraction(core::fraction(product.constant), product.value) ==
          product.expected);
  }
  if (core::is_fraction(-product.constant)) {
    CHECK(core::times_fraction_up(core::fraction(-product.constant), product.value) ==
          -product.expected);
  }
}

TEST_CASE("fractions are the constants from 0 to below 1", "[trust]") {
  CHECK(core::is_fraction(0));
  CHECK(core::is_fraction(core::fixed(1) - 1));
  CHECK_FALSE(core::is_fraction(core::fixed(1)));
  CHECK_FALSE(core::is_fraction(-1));
  CHECK_FALSE(core::is_fraction(core::fixed(-1)));
}

TEST_CASE("products in 64 and in 128 bits agree where both fit", "[trust]") {
  const std::int64_t constant = GENERATE(core::fixed(1), core::fixed(-1), core::fixed(0.9),
                                         core::fixed(-0.3), core::fixed(1e-18));
  const std::int64_t value =
      GENERATE(0, 1, -1, 12345678901, -98765432109876543, 0x3fffffffffffffff, -0x3fffffffffffffff);
  CHECK(static_cast<core::Int128>(core::times(constant, value)) ==
        core::times(constant, static_cast<core::Int128>(value)));
  if (core::is_fraction(constant))
    CHECK(core::times_fraction(core::fraction(constant), value) == core::times(constant, value));
  if (core::is_fraction(-constant)) {
    CHECK(core::times_fraction_up(core::fraction(-constant), value) ==
          -core::times(constant, value));
  }
}

TEST_CASE("constants have 60 fractional bits, and are below 4", "[trust]") {
  CHECK(core::fixed(0.75) == 0x0c00000000000000);
  CHECK(core::fixed(-2.0) == -0x2000000000000000);
  CHECK(core::fixed(0x1.8p-61) == 1);
  CHECK_THROWS_AS(core::fixed(4.0), ConfigError);
  CHECK_THROWS_AS(core::fixed(-4.0), ConfigError);
}
