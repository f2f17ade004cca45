#include "privgrad/finite.hpp"

#include <limits>
#include <vector>

#include "support.hpp"

TEST_CASE("one value that is not finite is found anywhere", "[finite]") {
  using Limits = std::numeric_limits<float>;
  const std::size_t size = GENERATE(1u, 7u, 4096u, 4097u, 10001u);
  std::vector<float> values(size, Limits::max());
  values.back() = -Limits::denorm_min();
  CHECK(privgrad::all_finite(values));
  for (const float bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    for (const std::size_t place : {std::size_t{0}, size / 2, size - 1}) {
      const float good = values[place];
      values[place] = bad;
      CHECK_FALSE(privgrad::all_finite(values));
      values[place] = good;
    }
  }
  CHECK(privgrad::all_finite({}));
}
