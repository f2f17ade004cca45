// The tiers of the rounded Gaussian that decide one element at a time.

#include <gmp.h>
#include <mpfr.h>

#include <cmath>
#include <list>
#include <optional>

#include "native_words.hpp"
#include "privgrad/trust/rounded_gaussian_tiers.hpp"

namespace privgrad::core {
namespace {

constexpr std::uint32_t kAngleMask = 0x1fffffff;  // the word's other three bits choose the octant
constexpr int kAngleBits = 29;
constexpr int kRadiusBits = 32;
constexpr int kExtensionBits = 64;

}  // namespace

RoundingScale::RoundingScale(std::span<const double> fine_sigmas, unsigned coarse_shift)
    : terms(fine_sigmas.size()), sigmas{}, coarse_sigmas{}, shift(coarse_shift) {
  double sum = 0.0;
  for (std::size_t j = 0; j < terms; ++j) {
    sigmas[j] = fine_sigmas[j];
    coarse_sigmas[j] = std::ldexp(sigmas[j], -static_cast<int>(shift));
    sum += std::abs(coarse_sigmas[j]);
  }
  size = std::ilogb(sum) + 1;
}

RoundingBits read_extension(std::uint64_t pair, std::uint64_t number, CounterCipher& extensions) {
  static_assert(sizeof(RoundingBits) == CounterCipher::kBlockBytes);
  RoundingBits bits;
  extensions.read(1 + number, pair, bytes_of(bits));
  to_native(bits.radius);
  to_native(bits.angle);
  return bits;
}

namespace {

class Whole {
 public:
  Whole() { mpz_init(value_); }
  explicit Whole(std::uint64_t x) : Whole() { append(x, 64); }
  Whole(const Whole&) = delete;
  Whole& operator=(const Whole&) = delete;
  ~Whole() { mpz_clear(value_); }

  /// Appends `bits` binary digits of x to this number.
  void append(std::uint64_t x, int bits) {
    Whole more;
    mpz_import(more.value_, 1, 1, sizeof x, 0, 0, &x);
    mpz_mul_2exp(value_, value_, static_cast<mp_bitcnt_t>(bits));
    mpz_add(value_, value_, more.value_);
  }

  void increment() { mpz_add_ui(value_, value_, 1); }
  bool is_zero() const { return mpz_sgn(value_) == 0; }
  bool operator==(const Whole& other) const { return mpz_cmp(value_, other.value_) == 0; }

  std::uint64_t modulo_2_64() const {
    Whole low;
    mpz_fdiv_r_2exp(low.value_, value_, 64);
    std::uint64_t x = 0;
    mpz_export(&x, nullptr, 1, sizeof x, 0, 0, low.value_);
    return x;
  }

  mpz_t value_;
};

class Real {
 public:
  explicit Real(mpfr_prec_t bits) { mpfr_init2(value_, bits); }
  Real(const Real&) = delete;
  Real& operator=(const Real&) = delete;
  ~Real() { mpfr_clear(value_); }

  operator mpfr_ptr() { return value_; }

 private:
  mpfr_t value_;
};

struct Interval {
  explicit Interval(mpfr_prec_t bits) : low(bits), high(bits) {}
  Real low;
  Real high;
};

/// Sets x to [m, m + 1] 2^-bits exactly; the precision must exceed `bits`.
void set_cell(Interval& x, const Whole& m, int bits) {
  mpfr_set_z_2exp(x.low, m.value_, -bits, MPFR_RNDD);
  mpfr_set_ui_2exp(x.high, 1, -bits, MPFR_RNDU);
  mpfr_add(x.high, x.high, x.low, MPFR_RNDU);
}

/// Replaces u, in (0, 1], by sqrt(-2 ln u), a decreasing function.
void set_radius(Interval& u) {
  mpfr_swap(u.low, u.high);
  mpfr_log(u.low, u.low, MPFR_RNDU);
  mpfr_log(u.high, u.high, MPFR_RNDD);
  mpfr_mul_si(u.low, u.low, -2, MPFR_RNDD);
  mpfr_mul_si(u.high, u.high, -2, MPFR_RNDU);
  mpfr_sqrt(u.low, u.low, MPFR_RNDD);
  mpfr_sqrt(u.high, u.high, MPFR_RNDU);
}

/// Replaces v, in [0, 1], by sin(pi v / 4), which is increasing, or cos(pi v / 4), which decreases.
void set_sine_or_cosine(Interval& v, bool sine) {
  Real pi(mpfr_get_prec(v.low));
  mpfr_const_pi(pi, MPFR_RNDD);
  mpfr_mul(v.low, v.low, pi, MPFR_RNDD);
  mpfr_const_pi(pi, MPFR_RNDU);
  mpfr_mul(v.high, v.high, pi, MPFR_RNDU);
  mpfr_div_2ui(v.low, v.low, 2, MPFR_RNDD);
  mpfr_div_2ui(v.high, v.high, 2, MPFR_RNDU);
  if (sine) {
    mpfr_sin(v.low, v.low, MPFR_RNDD);
    mpfr_sin(v.high, v.high, MPFR_RNDU);
  } else {
    mpfr_swap(v.low, v.high);
    mpfr_cos(v.low, v.low, MPFR_RNDD);
    mpfr_cos(v.high, v.high, MPFR_RNDU);
  }
}

/// The function of the angle for an element, and its sign.
struct Octant {
  bool sine;
  bool negative;
};

Octant octant_of(const RoundingAddress& address) {
  const bool exchanged = (address.angle >> 29 & 1) != 0;
  const int sign_bit = address.sine ? 30 : 31;
  return {address.sine != exchanged, (address.angle >> sign_bit & 1) != 0};
}

/// Replaces Z's interval by the interval of (remainder + Z) / 2^shift + 1 / 2. The remainder and
/// the powers of two are exact.
void scale_and_shift(Interval& z, unsigned shift, std::uint64_t remainder) {
  const Whole whole(remainder);
  for (const bool high : {false, true}) {
    const mpfr_rnd_t direction = high ? MPFR_RNDU : MPFR_RNDD;
    Real& x = high ? z.high : z.low;
    mpfr_add_z(x, x, whole.value_, direction);
    mpfr_div_2ui(x, x, shift, direction);
    mpfr_add_d(x, x, 0.5, direction);
  }
}

/// Returns k if the whole interval of x = Z + remainder + 1 / 2 rounds down to k.
std::optional<std::int64_t> decided(Interval& x) {
  Whole low, high;
  mpfr_get_z(low.value_, x.low, MPFR_RNDD);
  mpfr_get_z(high.value_, x.high, MPFR_RNDD);
  if (!(low == high)) return std::nullopt;
  return static_cast<std::int64_t>(low.modulo_2_64());
}

/// MPFR caches pi and the logarithm of 2 per thread, and does not free them when the thread ends.
struct FreeCaches {
  FreeCaches() = default;
  FreeCaches(const FreeCaches&) = delete;
  FreeCaches& operator=(const FreeCaches&) = delete;
  ~FreeCaches() { mpfr_free_cache(); }
};

/// A pair's two bit strings, as far as they have been read.
struct Strings {
  explicit Strings(const RoundingAddress& address)
      : radius(address.radius), angle(address.angle & kAngleMask) {}

  void append(const RoundingBits& bits) {
    radius.append(bits.radius, kExtensionBits);
    angle.append(bits.angle, kExtensionBits);
  }

  Whole radius, angle;
};

/// sum += sigma zeta, where zeta is in the interval given by strings with `further` more bits.
/// Sigma is exact.
void add_term(const Strings& strings, int further, const Octant& octant, double sigma,
              Interval& sum) {
  const mpfr_prec_t precision = mpfr_get_prec(sum.low);
  Interval z(precision), turn(precision);
  set_cell(z, strings.radius, kRadiusBits + further);
  set_cell(turn, strings.angle, kAngleBits + further);
  set_radius(z);
  set_sine_or_cosine(turn, octant.sine);
  mpfr_mul(z.low, z.low, turn.low, MPFR_RNDD);
  mpfr_mul(z.high, z.high, turn.high, MPFR_RNDU);
  mpfr_mul_d(z.low, z.low, std::abs(sigma), MPFR_RNDD);
  mpfr_mul_d(z.high, z.high, std::abs(sigma), MPFR_RNDU);
  if (octant.negative != (sigma < 0.0)) {
    mpfr_swap(z.low, z.high);
    mpfr_neg(z.low, z.low, MPFR_RNDD);
    mpfr_neg(z.high, z.high, MPFR_RNDU);
  }
  mpfr_add(sum.low, sum.low, z.low, MPFR_RNDD);
  mpfr_add(sum.high, sum.high, z.high, MPFR_RNDU);
}

}  // namespace

std::int64_t round_exactly(std::span<const RoundingAddress> terms, const RoundingScale& scale,
                           std::uint64_t remainder, std::span<CounterCipher* const> extensions) {
  const FreeCaches free_caches;
  std::list<Strings> strings;
  for (const RoundingAddress& address : terms) strings.emplace_back(address);
  for (int number = 0;; ++number) {
    const int further = (number + 1) * kExtensionBits;
    Interval sum(further + 3 * kExtensionBits);
    mpfr_set_zero(sum.low, 1);
    mpfr_set_zero(sum.high, 1);
    bool bounded = true;
    std::size_t j = 0;
    for (Strings& read : strings) {
      read.append(
          read_extension(terms[j].pair, static_cast<std::uint64_t>(number), *extensions[j]));
      if (read.radius.is_zero()) {
        bounded = false;  // the radius has no upper bound yet
      } else if (bounded) {
        add_term(read, further, octant_of(terms[j]), scale.sigmas[j], sum);
      }
      ++j;
    }
    if (!bounded) continue;
    scale_and_shift(sum, scale.shift, remainder);
    if (const auto k = decided(sum)) return *k;
  }
}

}  // namespace privgrad::core
