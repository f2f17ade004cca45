// The rounded Gaussian of the backend `cuda` on its host twin (or a GPU: on_gpu.hpp), has
// the same bits as the trust base's own, which trust_test "[exact]" compares with the
// definition.
#include <mpfr.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "device_noise.hpp"
#include "on_gpu.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/counter_cipher.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "support.hpp"

using namespace privgrad;
using namespace privgrad::cuda;

namespace {

class InlineExecutor final : public Executor {
 public:
  void for_each_chunk(std::size_t chunks, const std::function<void(std::size_t)>& body) override {
    for (std::size_t i = 0; i < chunks; ++i) body(i);
  }
};

using Cells = std::vector<std::int64_t>;

struct Released {
  Cells cells;
  std::vector<std::uint8_t> open;
};

/// Returns the cipher's part of a stream's key.
std::array<std::uint8_t, 16> cipher_key(const core::RandomKey& key, std::uint64_t stream) {
  const core::RandomKey own = key.derive("rounded normals " + std::to_string(stream));
  std::array<std::uint8_t, 16> half{};
  std::copy_n(own.secret_bytes().begin(), half.size(), half.begin());
  return half;
}

Released released_on_twin(const std::array<std::uint8_t, 16>& key, const NoiseScale& scale,
                          std::uint64_t first_chunk, const Cells& sums) {
  InlineExecutor executor;
  const std::shared_ptr<Device> twin = on_gpu() ? open_gpu(0) : make_host_twin(executor);
  const std::unique_ptr<Queue> queue = twin->make_queue();
  const DeviceNoise noise(twin);
  const std::size_t chunks = (sums.size() + 1023) / 1024;
  const Array<std::int64_t> cells(twin, sums.size());
  const Array<std::uint8_t> open(twin, chunks);
  queue->copy_in(cells.data(), sums.data(), sums.size() * sizeof(std::int64_t));
  noise.release(*queue, key, scale, first_chunk, cells.data(), cells.data(), sums.size(),
                open.data());
  Released found{Cells(sums.size()), std::vector<std::uint8_t>(chunks)};
  queue->copy_out(found.cells.data(), cells.data(), sums.size() * sizeof(std::int64_t));
  queue->copy_out(found.open.data(), open.data(), chunks);
  return found;
}

Cells random_sums(std::mt19937_64& generator, std::size_t count) {
  Cells sums(count);
  for (std::int64_t& sum : sums) {
    sum = static_cast<std::int64_t>(generator()) >> (generator() % 63);
  }
  return sums;
}

void check_same(double sigma, unsigned shift, NoiseTier first, std::size_t count,
                std::uint64_t first_chunk) {
  INFO("sigma " << sigma << ", shift " << shift << ", tier " << static_cast<int>(first));
  std::mt19937_64 generator(count);
  const Cells sums = random_sums(generator, count);
  const auto key = core::RandomKey::from_seed(7);
  constexpr std::uint64_t kStream = 3;
  Cells expected(count);
  core::RoundedGaussianStream(key, kStream)
      .release(1024 * first_chunk, sigma, shift, sums, expected);
  const Released found = released_on_twin(cipher_key(key, kStream),
                                          make_noise_scale(sigma, shift, first), first_chunk, sums);
  CHECK(std::count(found.open.begin(), found.open.end(), 0) ==
        static_cast<std::ptrdiff_t>(found.open.size()));
  const auto different = std::mismatch(found.cells.begin(), found.cells.end(), expected.begin());
  INFO("element " << different.first - found.cells.begin());
  CHECK(different.first == found.cells.end());
}

}  // namespace

TEST_CASE("cuda noise: AES-128 of FIPS 197's example, and of any counter as the trust base has it",
          "[cuda][privacy]") {
  const auto table = make_aes_table();
  // FIPS 197, appendix B, read as a counter.
  const std::array<std::uint8_t, 16> key{0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6,
                                         0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c};
  std::array<std::uint32_t, 4> out{};
  aes_block(expand_aes_key(key), table.data(), 0x3243f6a8885a308d, 0x313198a2e0370734, out.data());
  CHECK(out == std::array<std::uint32_t, 4>{0x1d842539, 0xfb09dc02, 0x978511dc, 0x320b6a19});

  const auto secret = core::RandomKey::from_seed(3);
  std::array<std::uint8_t, 16> half{};
  std::copy_n(secret.secret_bytes().begin(), half.size(), half.begin());
  const AesKeys keys = expand_aes_key(half);
  core::CounterCipher cipher(secret);
  std::mt19937_64 generator(5);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t domain = i % 2 == 0 ? generator() : generator() % 3;
    const std::uint64_t block = generator() >> (generator() % 64);
    std::array<std::uint8_t, 16> bytes{};
    cipher.read(domain, block, bytes);
    aes_block(keys, table.data(), domain, block, out.data());
    REQUIRE(std::memcmp(bytes.data(), out.data(), bytes.size()) == 0);
  }
}

TEST_CASE("cuda noise: millions of cells are those of the trust base", "[cuda][privacy][long]") {
  // The range that releases use: sigma / 2^shift in [2^9, 2^10), or no shift below 2^11.
  for (const double sigma : {0x1.8p-3, 1.0, 77.7, 2047.0, 1e5, 0x1p26, 0x1.23456789p27, 1e12}) {
    check_same(sigma, core::release_shift(sigma), NoiseTier::floats, 500'000, 0);
  }
  check_same(0x1.5p26, core::release_shift(0x1.5p26), NoiseTier::floats, 100'000,
             std::uint64_t{1} << 40);
}

TEST_CASE("cuda noise: every tier decides alike, at every scale that it decides for",
          "[cuda][privacy]") {
  // The larger sigma / 2^shift is, the more digits of an element are compared: at 2^45, 49 before
  // the point. There double2 leaves less than 2^-29 of all elements undecided.
  struct Case {
    double sigma;
    unsigned shift;
    NoiseTier first;
    std::size_t count;
  };
  for (const Case& one :
       {Case{1000.0, 0, NoiseTier::doubles, 100'000}, Case{1000.0, 0, NoiseTier::wide, 30'000},
        Case{0x1p14, 0, NoiseTier::floats, 50'000}, Case{0x1.7p22, 0, NoiseTier::floats, 20'000},
        Case{0x1.7p26, 17, NoiseTier::wide, 30'000}, Case{0x1.9p40, 0, NoiseTier::wide, 30'000},
        Case{0x1.fffffp45, 0, NoiseTier::wide, 100'000}, Case{0x1p60, 20, NoiseTier::wide, 30'000},
        Case{0x1p59, 62, NoiseTier::floats, 20'000}, Case{0x1p-64, 0, NoiseTier::wide, 3'000}}) {
    check_same(one.sigma, one.shift, one.first, one.count, 5);
  }
}

TEST_CASE("cuda noise: the ends of the unit interval, where words say little", "[cuda][privacy]") {
  // Elements whose radius word is all 0 or all 1, which do not occur in a stream of this length:
  // double2 decides them from 64 more bits. They are compared with long double, whose 64 bits
  // suffice for these few elements.
  const NoiseScale scale = make_noise_scale(1000.0, 0);
  for (const std::uint32_t word : {std::uint32_t{0}, ~std::uint32_t{0}}) {
    for (const std::uint64_t more :
         {std::uint64_t{1} << 63, std::uint64_t{0x123456789abcdef}, ~std::uint64_t{0} - 12345}) {
      for (const bool sine : {false, true}) {
        const NoiseElement element{word, 0x0badcafe, sine, more, 0x9e3779b97f4a7c15};
        const long double u =
            (static_cast<long double>(word) + static_cast<long double>(more) * 0x1p-64L) * 0x1p-32L;
        // 1 - u has its significant digits where u has none.
        const long double rest = static_cast<long double>(~more) * 0x1p-96L;
        const long double r = std::sqrt(-2 * (word == 0 ? std::log(u) : std::log1p(-rest)));
        const long double t = (0x0badcafe + 0x9e3779b97f4a7c15 * 0x1p-64L) * 0x1p-29L;
        const long double angle = 3.14159265358979323846L / 4 * t;
        const long double z = 1000 * r * (sine ? std::sin(angle) : std::cos(angle));
        std::int64_t k = 0;
        REQUIRE(decide_by_double2(element, scale, 0, k));
        REQUIRE(std::abs(z - std::round(z)) < 0.4999L);
        CHECK(k == static_cast<std::int64_t>(std::floor(z + 0.5L)));
        CHECK_FALSE(decide_by_doubles(element, scale, 0, k));
      }
    }
  }
}

TEST_CASE("cuda noise: what cannot be decided is left open, and said", "[cuda][privacy]") {
  // Beyond 2^46 coarse cells no tier can decide.
  const auto key = core::RandomKey::from_seed(7);
  const Released found =
      released_on_twin(cipher_key(key, 0), make_noise_scale(0x1p50, 0), 0, Cells(3000, 0));
  CHECK(found.open == std::vector<std::uint8_t>{1, 1, 1});
  // A radius without an upper bound: u may be 0.
  std::int64_t k = 0;
  CHECK_FALSE(decide_by_double2({0, 1, false, 0, 0}, make_noise_scale(1.0, 0), 0, k));
  CHECK_THROWS_AS(make_noise_scale(0.0, 0), ConfigError);
  CHECK_THROWS_AS(make_noise_scale(std::nan(""), 0), ConfigError);
  CHECK_THROWS_AS(make_noise_scale(1.0, 63), ConfigError);
}

namespace {

/// A number of 300 bits.
class Real {
 public:
  Real() { mpfr_init2(value_, 300); }
  explicit Real(Double2 x) : Real() {
    mpfr_set_d(value_, x.high, MPFR_RNDN);
    mpfr_add_d(value_, value_, x.low, MPFR_RNDN);
  }
  Real(const Real&) = delete;
  Real& operator=(const Real&) = delete;
  ~Real() { mpfr_clear(value_); }
  operator mpfr_ptr() { return value_; }

  /// Returns the distance between x and the exact value, divided by the unit.
  double distance(Double2 x, double unit) {
    Real other(x);
    mpfr_sub(other, other, value_, MPFR_RNDN);
    return std::abs(mpfr_get_d(other, MPFR_RNDN)) / unit;
  }

 private:
  mpfr_t value_;
};

}  // namespace

TEST_CASE("cuda noise: numbers of two doubles are as exact as is said", "[cuda][privacy]") {
  // Compared with MPFR at 300 bits, with the bounds in double_double.hpp.
  std::mt19937_64 generator(11);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  for (int i = 0; i < 20'000; ++i) {
    // m from 0.71 to 1.41, including values near 1, and powers of two from 2^-96.
    const double n = (uniform(generator) * 0.7 - 0.29) * std::ldexp(1.0, -(i % 90));
    const Double2 fine = exact_sum(n, n * uniform(generator) * 0x1p-54);
    const double exponent = i % 2 == 0 ? 0.0 : -static_cast<double>(1 + i % 96);
    Real logarithm_of(fine), power;
    mpfr_log1p(logarithm_of, logarithm_of, MPFR_RNDN);
    mpfr_const_log2(power, MPFR_RNDN);
    mpfr_mul_d(power, power, exponent, MPFR_RNDN);
    mpfr_add(logarithm_of, logarithm_of, power, MPFR_RNDN);
    const double size = std::abs(mpfr_get_d(logarithm_of, MPFR_RNDN));
    REQUIRE(logarithm_of.distance(logarithm(fine, exponent), size) < 0x1p-93);

    Double2 t = fraction_of(static_cast<std::uint32_t>(generator()), generator());
    t = scaled(t, std::ldexp(1.0, -(i % 40)));
    Real angle(t), pi, sine, cosine;
    mpfr_const_pi(pi, MPFR_RNDN);
    mpfr_mul(angle, angle, pi, MPFR_RNDN);
    mpfr_div_ui(angle, angle, 4, MPFR_RNDN);
    mpfr_sin_cos(sine, cosine, angle, MPFR_RNDN);
    REQUIRE(sine.distance(sine_or_cosine(t, true), mpfr_get_d(sine, MPFR_RNDN)) < 0x1p-94);
    REQUIRE(cosine.distance(sine_or_cosine(t, false), 1.0) < 0x1p-94);

    Real root(t);
    mpfr_sqrt(root, root, MPFR_RNDN);
    REQUIRE(root.distance(square_root(t), mpfr_get_d(root, MPFR_RNDN)) < 0x1p-101);
  }
  mpfr_free_cache();
}
