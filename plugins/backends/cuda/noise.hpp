// The kernel that draws rounded Gaussian noise on a device, with the bits of the trust base.
#pragma once

#include "double_double.hpp"

// framework/trust/noise/include/privgrad/trust/rounded_gaussian.hpp has the definition and the
// proof. A key fixes element i of a stream. Here an element is decided in three tiers: float32,
// double and double2. Each computes an interval that certainly contains the true value, and leaves
// the element to the next tier unless the whole interval rounds to one number. At the scales of
// real releases, double2 leaves fewer than one element in 2^60 undecided; the kernel marks the
// chunk of such an element, and the caller recomputes the chunk.
namespace privgrad::cuda {

// --- AES-128 (FIPS 197), by a table of 256 words for the middle rounds. Its indices are secret: a
// program that can time the GPU's memory from inside could learn about the key, so programs of
// other users must not run on the GPU (SECURITY.md).

/// The round keys, each of four columns whose first byte is the most significant.
struct AesKeys {
  uint32_t words[44];
};

constexpr uint32_t kAesTable = 256;

PRIVGRAD_HD uint32_t rotated(uint32_t word, uint32_t right) {
  return (word >> right) | (word << (32 - right));
}

/// Encrypts the 128 bits (domain, block), both numbers big-endian.
/// \param table  the contribution of a byte x to a column: (2 S[x], S[x], S[x], 3 S[x]).
/// \param out  out: the ciphertext, as four little-endian words.
PRIVGRAD_HD void aes_block(const AesKeys& keys, const uint32_t* table, uint64_t domain,
                           uint64_t block, uint32_t* out) {
  uint32_t s[4] = {static_cast<uint32_t>(domain >> 32), static_cast<uint32_t>(domain),
                   static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(block)};
  PRIVGRAD_UNROLL for (uint32_t i = 0; i < 4; ++i) s[i] ^= keys.words[i];
  PRIVGRAD_UNROLL for (uint32_t round = 1; round < 10; ++round) {
    uint32_t t[4];
    PRIVGRAD_UNROLL for (uint32_t i = 0; i < 4; ++i) {
      t[i] = table[s[i] >> 24] ^ rotated(table[(s[(i + 1) % 4] >> 16) & 0xff], 8) ^
             rotated(table[(s[(i + 2) % 4] >> 8) & 0xff], 16) ^
             rotated(table[s[(i + 3) % 4] & 0xff], 24) ^ keys.words[4 * round + i];
    }
    PRIVGRAD_UNROLL for (uint32_t i = 0; i < 4; ++i) s[i] = t[i];
  }
  PRIVGRAD_UNROLL for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t last = (table[s[i] >> 24] & 0x00ff0000) << 8 |
                          (table[(s[(i + 1) % 4] >> 16) & 0xff] & 0x00ff0000) |
                          (table[(s[(i + 2) % 4] >> 8) & 0xff] & 0x0000ff00) |
                          (table[s[(i + 3) % 4] & 0xff] & 0x0000ff00) >> 8;
    const uint32_t word = last ^ keys.words[40 + i];
    out[i] = word << 24 | (word & 0xff00) << 8 | (word >> 8 & 0xff00) | word >> 24;
  }
}

// --- Box-Muller: polynomials and bounds of framework/trust (normal_kernels.hpp,
// rounded_gaussian_tiers.hpp), whose tests check them for every word.

PRIVGRAD_HD float chosen(bool yes, float a, float b) { return yes ? a : b; }

/// Returns sqrt(-2 ln u) for u = (word + 1/2) 2^-32.
PRIVGRAD_HD float float_radius(uint32_t word) {
  constexpr uint32_t kSqrtHalf = 0x3f3504f3, kBias = 127;
  const bool upper = word >> 31 != 0;
  const auto below_half = static_cast<int32_t>(upper ? ~word : word);
  const float a = fused(static_cast<float>(below_half), 0x1p-32f, 0x1p-33f);
  const float x = chosen(upper, 1.0f - a, a);
  const uint32_t exponent = (bits_of(x) - kSqrtHalf + (kBias << 23)) >> 23;
  const float scale = float_of((2 * kBias - exponent) << 23);
  const float n = chosen(upper, fused(-scale, a, scale - 1.0f), fused(scale, a, -1.0f));
  const float s = n / (n + 2.0f);
  const float z = s * s;
  float p = -0x1.de0fd4p-2f;
  p = fused(p, z, -0x1.245b0cp-1f);
  p = fused(p, z, -0x1.9999eep-1f);
  p = fused(p, z, -0x1.555556p+0f);
  p = fused(p, z, -4.0f);
  const auto e = static_cast<float>(static_cast<int32_t>(exponent - kBias));
  return square_root(fused(s, p, e * -0x1.62e430p+0f));
}

/// Returns the cosine or sine of the angle that a word encodes, mapped to its octant, times r.
PRIVGRAD_HD float float_turned(uint32_t word, bool sine, float r) {
  const auto k = static_cast<float>(static_cast<int32_t>(word & 0x1fffffff));
  const float t = fused(k, 0x1p-29f, 0x1p-30f);
  const float z = t * t;
  float value = 0.0f;
  if (sine != ((word >> 29 & 1) != 0)) {
    value = fused(-0x1.2d9b7cp-15f, z, 0x1.465ec4p-9f);
    value = fused(value, z, -0x1.4abbbap-4f);
    value = fused(value, z, 0x1.921fb6p-1f);
    value = value * t;
  } else {
    value = fused(0x1.db64d0p-19f, z, -0x1.55cb98p-12f);
    value = fused(value, z, 0x1.03c1eap-6f);
    value = fused(value, z, -0x1.3bd3ccp-2f);
    value = fused(value, z, 1.0f);
  }
  const uint32_t sign = (sine ? word << 1 : word) & 0x80000000u;
  return float_of(bits_of(value) ^ sign) * r;
}

/// Returns sqrt(-2 ln u) for u = a, or 1 - a if `upper`; a in [2^-97, 1/2].
PRIVGRAD_HD double double_radius(double a, bool upper) {
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd, kBias = 1023;
  const double x = upper ? 1.0 - a : a;
  const uint64_t exponent = (bits_of(x) - kSqrtHalf + (kBias << 52)) >> 52;
  const double scale = double_of((2 * kBias - exponent) << 52);
  const double n = upper ? fused(-scale, a, scale - 1.0) : fused(scale, a, -1.0);
  const double s = n / (n + 2.0);
  const double z = s * s;
  double p = -0x1.2b584c6b42d60p-2;
  p = fused(p, z, -0x1.39fe604146b74p-2);
  p = fused(p, z, -0x1.7462b4ac441afp-2);
  p = fused(p, z, -0x1.c71c62e57c3c4p-2);
  p = fused(p, z, -0x1.2492492df14bcp-1);
  p = fused(p, z, -0x1.99999999952e2p-1);
  p = fused(p, z, -0x1.5555555555558p+0);
  p = fused(p, z, -4.0);
  const double e = double_of(0x4330000000000000u | exponent) - (0x1p52 + 1023.0);
  return square_root(fused(e, -0x1.62e42fefa39efp+0, s * p));
}

PRIVGRAD_HD double double_turned(uint32_t word, bool sine, double t, double r) {
  const double z = t * t;
  double value = 0.0;
  if (sine != ((word >> 29 & 1) != 0)) {
    value = fused(0x1.e4a9d9166f052p-38, z, -0x1.e3027dea82bd7p-30);
    value = fused(value, z, 0x1.50783208843ebp-22);
    value = fused(value, z, -0x1.32d2cce500387p-15);
    value = fused(value, z, 0x1.466bc6775a476p-9);
    value = fused(value, z, -0x1.4abbce625be52p-4);
    value = fused(value, z, 0x1.921fb54442d18p-1);
    value = value * t;
  } else {
    value = fused(0x1.f4b536b457d9ep-34, z, -0x1.a6cc32d07dc98p-26);
    value = fused(value, z, 0x1.e1f50093e4c8fp-19);
    value = fused(value, z, -0x1.55d3c7e10153fp-12);
    value = fused(value, z, 0x1.03c1f081b4b74p-6);
    value = fused(value, z, -0x1.3bd3cc9be45dbp-2);
    value = fused(value, z, 1.0);
  }
  const uint64_t sign = static_cast<uint64_t>(sine ? word << 1 : word) << 32;
  return double_of(bits_of(value) ^ (sign & 0x8000000000000000u)) * r;
}

/// Whether the float tier skips a pair: u is below 2^-12, or within 2^-18 of 1.
PRIVGRAD_HD bool is_coarse(uint32_t radius) {
  constexpr uint32_t kFirst = 1u << 20, kLast = 1u << 14;
  return radius + kLast < kFirst + kLast;
}

PRIVGRAD_HD double whole_below(double x) {
#ifdef __CUDA_ARCH__
  return ::floor(x);
#else
  return __builtin_floor(x);
#endif
}

// --- Tiers.

enum class NoiseTier : uint32_t { floats, doubles, wide };

/// The facts about a release's noise that all its elements share: see make_noise_scale().
struct NoiseScale {
  double coarse_sigma;  // sigma / 2^shift
  uint32_t shift;
  int32_t size;  // the smallest integer for which coarse_sigma < 2^size
  NoiseTier first;
  // For the float tier, in units of 2^-bits coarse cells: sigma, and the bound r * slope + offset.
  int32_t bits;
  float factor, slope, offset;
};

/// The largest size that a tier here can decide; above it, double2's integers would overflow.
constexpr int32_t kLargestNoiseSize = 46;

/// An element's words, the next 64 + 64 bits of its pair, and the element's index in its
/// pair.
struct NoiseElement {
  uint32_t radius, angle;
  bool sine;
  uint64_t more_radius, more_angle;
};

/// Decides like the trust base's `floats`, with its bound; Z, remainder and 1/2 are in fixed point.
PRIVGRAD_HD bool decide_by_floats(const NoiseElement& element, const NoiseScale& scale,
                                  uint64_t sum, int64_t& k) {
  const float r = float_radius(element.radius);
  const float z = float_turned(element.angle, element.sine, r * scale.factor);
  const int32_t mask = (1 << scale.bits) - 1;
  const int32_t half = 1 << (scale.bits - 1);
  const auto bound = static_cast<int32_t>(fused(r, scale.slope, scale.offset));
  const auto shift = static_cast<int32_t>(scale.shift);
  int32_t remainder = 0;
  if (shift > 0) {
    const uint64_t moved =
        scale.bits >= shift ? sum << (scale.bits - shift) : sum >> (shift - scale.bits);
    remainder = static_cast<int32_t>(moved & static_cast<uint64_t>(mask));
  }
  const int32_t x = static_cast<int32_t>(z) + half + remainder;
  k = x >> scale.bits;
  return !is_coarse(element.radius) && ((x + bound) & mask) >= 2 * bound;
}

/// Decides like the trust base's `fine`, on 96 + 96 bits, with its bound.
PRIVGRAD_HD bool decide_by_doubles(const NoiseElement& element, const NoiseScale& scale,
                                   uint64_t remainder, int64_t& k) {
  if (element.radius == 0 || element.radius == ~uint32_t{0}) return false;
  const bool upper = element.radius >> 31 != 0;
  const auto whole = static_cast<double>(upper ? ~element.radius : element.radius);
  const auto rest = static_cast<double>(upper ? ~element.more_radius : element.more_radius);
  const double a = (whole + rest * 0x1p-64) * 0x1p-32;
  const double t = (static_cast<double>(element.angle & 0x1fffffff) +
                    static_cast<double>(element.more_angle) * 0x1p-64) *
                   0x1p-29;
  const double r = double_radius(a, upper) * scale.coarse_sigma;
  const double z = double_turned(element.angle, element.sine, t, r);
  const double fraction =
      static_cast<double>(remainder) * double_power_of_two(-static_cast<int64_t>(scale.shift));
  const double x = z + (fraction + 0.5);
  const double bound = r * 0x1p-46 + 0x1p-50;
  const double low = whole_below(x - bound);
  k = static_cast<int64_t>(low);
  return low == whole_below(x + bound);
}

/// Decides by double2, on the same bits. If u (or 1 - u) is in a cell of width 2^-96 that begins
/// at a, its r differs from the r at the beginning of the cell by at most
///   2 2^-96 / (a r)   below 1/2: |dr| = |d(r^2)| / (r + r') <= 2 ln((m + 1) / m) / r, m = a 2^96,
///   2 2^-96 / r       above: |d(r^2)| <= 2 2^-96 / u, u >= 1/2, and r is least at the beginning,
/// and the angle's function by less than 2^-93 (its cell is 2^-93 wide, its slope pi / 4). The
/// error of the computation is less than 2^-90 of r, of |Z| and of the sum: some twenty operations,
/// the logarithm's 2^-93 and the sine's 2^-94. The code assumes 2^-80.
///
/// For sizes up to 11, the largest in a release (release_shift()), an interval is below 2^-65 wide
/// unless u is below about 2^-20, which is correspondingly rare: less than one element in 2^60 is
/// left undecided.
PRIVGRAD_HD bool decide_by_double2(const NoiseElement& element, const NoiseScale& scale,
                                   uint64_t remainder, int64_t& k) {
  const bool upper = element.radius >> 31 != 0;
  const uint32_t top = upper ? ~element.radius : element.radius;
  const uint64_t rest = upper ? ~element.more_radius : element.more_radius;
  if ((top == 0 && rest == 0) || scale.size > kLargestNoiseSize) return false;
  const Double2 a = fraction_of(top, rest);
  Double2 n = negative(a);  // x = 1 - a
  double exponent = 0.0;
  if (!upper) {
    int64_t e = static_cast<int64_t>(bits_of(a.high) >> 52) - 1022;  // a in [2^(e-1), 2^e)
    if (a.high * double_power_of_two(-e) < 0.70710678118654752) --e;
    n = add(scaled(a, double_power_of_two(-e)), {-1.0, 0.0});
    exponent = static_cast<double>(e);
  } else if (a.high > 0.29289321881345248) {
    n = add({1.0, 0.0}, scaled(a, -2.0));
    exponent = -1.0;
  }
  const Double2 r = square_root(scaled(logarithm(n, exponent), -2.0));
  const Double2 t = scaled(fraction_of(element.angle & 0x1fffffff, element.more_angle), 8.0);
  const bool exchanged = (element.angle >> 29 & 1) != 0;
  const Double2 turn = sine_or_cosine(t, element.sine != exchanged);
  Double2 z = multiply(multiply(r, turn), {scale.coarse_sigma, 0.0});
  if ((element.angle >> (element.sine ? 30 : 31) & 1) != 0) z = negative(z);
  const Double2 whole = exact_sum(static_cast<double>(remainder >> 32) * 0x1p32,
                                  static_cast<double>(remainder & 0xffffffffu));
  const Double2 fraction = scaled(whole, double_power_of_two(-static_cast<int64_t>(scale.shift)));
  const Double2 x = add(add(z, fraction), {0.5, 0.0});
  const double cell = 0x1.1p-95 / (upper ? r.high : a.high * r.high);
  const double bound = scale.coarse_sigma * (cell + r.high * 0x1.1p-93) +
                       (size_of(z.high) + scale.coarse_sigma * r.high + 2.0) * 0x1p-80;
  const double nearest = whole_below(x.high + 0.5);
  const double away = (x.high - nearest) + x.low;
  k = static_cast<int64_t>(nearest) - (away < 0.0 ? 1 : 0);
  return size_of(away) > bound * 1.01;
}

/// Computes a chunk of 1024 elements: out = round((sum + sigma zeta) / 2^shift), modulo 2^64.
struct RoundedNoise {
  static constexpr uint32_t kChunk = 1024, kPairs = kChunk / 2;
  struct Shared {
    uint32_t table[kAesTable];
    uint32_t words[kChunk];  // the words of each pair's radius, then of its angle
    uint8_t open[kThreads];
  };

  uint64_t chunks, first_chunk;
  uint64_t count;  // the number of elements, beginning with the first chunk
  NoiseScale scale;
  AesKeys keys;
  const uint32_t* table;
  const int64_t* sums;
  int64_t* out;   // may be the memory of sums
  uint8_t* open;  // [chunks]: 1 if an element is undecided, so that the chunk is invalid

  uint64_t blocks() const { return chunks; }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    const uint64_t chunk = first_chunk + block;
    each_thread([&](uint32_t thread) { shared.table[thread] = table[thread]; });
    each_thread([&](uint32_t thread) {
      aes_block(keys, shared.table, 0, chunk * kThreads + thread,
                shared.words + size_t{4} * thread);
    });
    each_thread([&](uint32_t thread) {
      bool all = true;
      for (uint32_t i = thread; i < kChunk; i += kThreads) {
        const uint64_t at = block * kChunk + i;
        if (at < count) all &= decide(chunk, i, shared, static_cast<uint64_t>(sums[at]), out[at]);
      }
      shared.open[thread] = all ? 0 : 1;
    });
    each_thread([&](uint32_t thread) {
      if (thread != 0) return;
      uint8_t any = 0;
      for (uint32_t i = 0; i < kThreads; ++i) any |= shared.open[i];
      open[block] = any;
    });
  }

 private:
  PRIVGRAD_HD bool decide(uint64_t chunk, uint32_t i, const Shared& shared, uint64_t sum,
                          int64_t& released) const {
    const uint32_t pair = i % kPairs;
    NoiseElement element = {shared.words[pair], shared.words[kPairs + pair], i >= kPairs, 0, 0};
    int64_t k = 0;
    bool decided = scale.first == NoiseTier::floats && decide_by_floats(element, scale, sum, k);
    if (!decided) {
      uint32_t more[4];
      aes_block(keys, shared.table, 1, chunk * kPairs + pair, more);
      element.more_radius = static_cast<uint64_t>(more[1]) << 32 | more[0];
      element.more_angle = static_cast<uint64_t>(more[3]) << 32 | more[2];
      const uint64_t remainder = sum & ((uint64_t{1} << scale.shift) - 1);
      decided =
          (scale.first != NoiseTier::wide && decide_by_doubles(element, scale, remainder, k)) ||
          decide_by_double2(element, scale, remainder, k);
    }
    released = static_cast<int64_t>(
        static_cast<uint64_t>(static_cast<int64_t>(sum) >> scale.shift) + static_cast<uint64_t>(k));
    return decided;
  }
};

}  // namespace privgrad::cuda
