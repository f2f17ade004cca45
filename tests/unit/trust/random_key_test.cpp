#include <cmath>
#include <vector>

#include "privgrad/trust/random_key.hpp"
#include "support.hpp"

using privgrad::core::make_random_source;
using privgrad::core::RandomKey;

TEST_CASE("a key's bytes are ChaCha20", "[noise]") {
  // Keys are not readable, so this checks the structure: reading block b of a stream gives the same
  // as reading on from block 0, whatever the length of the reads.
  const RandomKey key = RandomKey::from_seed(1);
  std::vector<std::uint8_t> whole(64 * 5), part(64 * 2);
  key.fill_bytes(7, 0, whole);
  key.fill_bytes(7, 3, part);
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 64 * 3));
}

TEST_CASE("uniform_below has no modulo bias and stays below", "[noise]") {
  // A bound just above 2^63 makes a plain modulo favour small results by 2 to 1; half of the
  // results must be below bound / 2.
  const auto stream = make_random_source(RandomKey::from_seed(3))->stream(0);
  constexpr std::uint64_t kBound = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 62);
  int low = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t draw = stream->uniform_below(kBound);
    REQUIRE(draw < kBound);
    low += draw < kBound / 2;
  }
  // Binomial, 6 standard deviations = 424: false alarm below 1e-8. Modulo bias would give 2/3.
  CHECK(std::abs(low - kDraws / 2) < 424);
  CHECK(stream->uniform_below(1) == 0);
}

TEST_CASE("streams of one source: same index, same numbers", "[noise]") {
  const auto source = make_random_source(RandomKey::from_seed(4));
  std::vector<float> a(100), b(100), c(100);
  source->stream(5)->fill_normal(a);
  source->stream(5)->fill_normal(b);
  source->stream(6)->fill_normal(c);
  CHECK(a == b);
  CHECK(a != c);
}
