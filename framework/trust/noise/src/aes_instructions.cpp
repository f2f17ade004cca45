#include "privgrad/trust/aes_instructions.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/instruction_set.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace privgrad::core {

#if defined(__x86_64__)

namespace {

#define PRIVGRAD_AES [[gnu::target("aes,sse4.1")]]
#define PRIVGRAD_VAES_256 [[gnu::target("vaes,aes,avx2")]]
#define PRIVGRAD_VAES_512 [[gnu::target("vaes,aes,avx512f,avx512bw")]]

constexpr std::size_t kBlockBytes = 16;
/// Registers in flight at the same time: an instruction takes four cycles, and up to two can start
/// in each cycle.
constexpr std::size_t kTogether = 8;

template <int RoundConstant>
PRIVGRAD_AES __m128i next_round_key(__m128i key) {
  const __m128i word =
      _mm_shuffle_epi32(_mm_aeskeygenassist_si128(key, RoundConstant), _MM_SHUFFLE(3, 3, 3, 3));
  // Before `word` is added, each word is the sum (xor) of the last key's words up to it, made by
  // three shifts and additions.
  for (int i = 0; i < 3; ++i) key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
  return _mm_xor_si128(key, word);
}

PRIVGRAD_AES __m128i counter(std::uint64_t domain, std::uint64_t block) {
  return _mm_set_epi64x(static_cast<long long>(__builtin_bswap64(block)),
                        static_cast<long long>(__builtin_bswap64(domain)));
}

template <std::size_t Blocks>
PRIVGRAD_AES void encrypt(const __m128i (&keys)[11], std::uint64_t domain, std::uint64_t block,
                          std::uint8_t* out) {
  __m128i x[Blocks];
  for (std::size_t i = 0; i < Blocks; ++i)
    x[i] = _mm_xor_si128(counter(domain, block + i), keys[0]);
  for (std::size_t round = 1; round < 10; ++round) {
    for (std::size_t i = 0; i < Blocks; ++i) x[i] = _mm_aesenc_si128(x[i], keys[round]);
  }
  for (std::size_t i = 0; i < Blocks; ++i) {
    const __m128i last = _mm_aesenclast_si128(x[i], keys[10]);
    std::memcpy(out + i * kBlockBytes, &last, kBlockBytes);
  }
}

PRIVGRAD_AES void counter_blocks_128(const AesRoundKeys& round_keys, std::uint64_t domain,
                                     std::uint64_t block, std::span<std::uint8_t> out) {
  __m128i keys[11];
  std::memcpy(keys, &round_keys, sizeof keys);
  while (out.size() >= kTogether * kBlockBytes) {
    encrypt<kTogether>(keys, domain, block, out.data());
    block += kTogether;
    out = out.subspan(kTogether * kBlockBytes);
  }
  while (out.size() >= kBlockBytes) {
    encrypt<1>(keys, domain, block++, out.data());
    out = out.subspan(kBlockBytes);
  }
  if (out.empty()) return;
  std::uint8_t last[kBlockBytes];
  encrypt<1>(keys, domain, block, last);
  std::copy_n(last, out.size(), out.begin());
}

// The wider variants count in the processor's byte order, with vector additions, and swap the bytes
// of each counter on loading. The first variant computes the last blocks, which do not fill a wide
// register.

PRIVGRAD_VAES_256 void counter_blocks_256(const AesRoundKeys& round_keys, std::uint64_t domain,
                                          std::uint64_t block, std::span<std::uint8_t> out) {
  constexpr std::size_t kBlocks = 2;
  constexpr std::size_t kBytes = kTogether * kBlocks * kBlockBytes;
  if (out.size() < kBytes) return counter_blocks_128(round_keys, domain, block, out);
  __m256i keys[11];
  for (std::size_t i = 0; i < 11; ++i) {
    __m128i key;
    std::memcpy(&key, &round_keys.keys[i], sizeof key);
    keys[i] = _mm256_broadcastsi128_si256(key);
  }
  const __m256i turn =
      _mm256_broadcastsi128_si256(_mm_set_epi64x(0x08090a0b0c0d0e0f, 0x0001020304050607));
  const auto high = static_cast<long long>(domain);
  const auto low = static_cast<long long>(block);
  __m256i counters =
      _mm256_add_epi64(_mm256_set_epi64x(low, high, low, high), _mm256_set_epi64x(1, 0, 0, 0));
  const __m256i next = _mm256_set_epi64x(kBlocks, 0, kBlocks, 0);
  while (out.size() >= kBytes) {
    __m256i x[kTogether];
    for (std::size_t i = 0; i < kTogether; ++i) {
      x[i] = _mm256_xor_si256(_mm256_shuffle_epi8(counters, turn), keys[0]);
      counters = _mm256_add_epi64(counters, next);
    }
    for (std::size_t round = 1; round < 10; ++round) {
      for (std::size_t i = 0; i < kTogether; ++i) x[i] = _mm256_aesenc_epi128(x[i], keys[round]);
    }
    for (std::size_t i = 0; i < kTogether; ++i) x[i] = _mm256_aesenclast_epi128(x[i], keys[10]);
    std::memcpy(out.data(), x, kBytes);
    block += kTogether * kBlocks;
    out = out.subspan(kBytes);
  }
  counter_blocks_128(round_keys, domain, block, out);
}

/// Uses a full mask, because GCC 12 warns that the version without one reads an uninitialised
/// register.
PRIVGRAD_VAES_512 __m512i broadcast_512(__m128i quarter) {
  return _mm512_maskz_broadcast_i32x4(0xffff, quarter);
}

PRIVGRAD_VAES_512 void counter_blocks_512(const AesRoundKeys& round_keys, std::uint64_t domain,
                                          std::uint64_t block, std::span<std::uint8_t> out) {
  constexpr std::size_t kBlocks = 4;
  constexpr std::size_t kBytes = kTogether * kBlocks * kBlockBytes;
  if (out.size() < kBytes) return counter_blocks_128(round_keys, domain, block, out);
  __m512i keys[11];
  for (std::size_t i = 0; i < 11; ++i) {
    __m128i key;
    std::memcpy(&key, &round_keys.keys[i], sizeof key);
    keys[i] = broadcast_512(key);
  }
  const __m512i turn = broadcast_512(_mm_set_epi64x(0x08090a0b0c0d0e0f, 0x0001020304050607));
  const auto high = static_cast<long long>(domain);
  const auto low = static_cast<long long>(block);
  __m512i counters = _mm512_add_epi64(_mm512_set_epi64(low, high, low, high, low, high, low, high),
                                      _mm512_set_epi64(3, 0, 2, 0, 1, 0, 0, 0));
  const __m512i next = _mm512_set_epi64(kBlocks, 0, kBlocks, 0, kBlocks, 0, kBlocks, 0);
  while (out.size() >= kBytes) {
    __m512i x[kTogether];
    for (std::size_t i = 0; i < kTogether; ++i) {
      x[i] = _mm512_xor_si512(_mm512_shuffle_epi8(counters, turn), keys[0]);
      counters = _mm512_add_epi64(counters, next);
    }
    for (std::size_t round = 1; round < 10; ++round) {
      for (std::size_t i = 0; i < kTogether; ++i) x[i] = _mm512_aesenc_epi128(x[i], keys[round]);
    }
    for (std::size_t i = 0; i < kTogether; ++i) x[i] = _mm512_aesenclast_epi128(x[i], keys[10]);
    std::memcpy(out.data(), x, kBytes);
    block += kTogether * kBlocks;
    out = out.subspan(kBytes);
  }
  counter_blocks_128(round_keys, domain, block, out);
}

/// Compilers disagree on whether __builtin_cpu_supports() knows VAES. instruction_set() checks that
/// the operating system saves the registers.
bool has_vaes() {
  constexpr unsigned kVaes = 1u << 9;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c & kVaes) != 0;
}

std::vector<AesVariant> find_variants() {
  std::vector<AesVariant> found;
  if (!has_aes_instructions()) return found;
  if (has_vaes()) {
    if (instruction_set() >= InstructionSet::avx512 && __builtin_cpu_supports("avx512bw"))
      found.push_back({"vaes 512", counter_blocks_512});
    found.push_back({"vaes 256", counter_blocks_256});
  }
  found.push_back({"aes", counter_blocks_128});
  return found;
}

}  // namespace

bool has_aes_instructions() {
  return instruction_set() >= InstructionSet::avx2 && __builtin_cpu_supports("aes");
}

PRIVGRAD_AES AesRoundKeys aes_round_keys(std::span<const std::uint8_t, 16> key) {
  __m128i keys[11];
  std::memcpy(&keys[0], key.data(), kBlockBytes);
  keys[1] = next_round_key<0x01>(keys[0]);
  keys[2] = next_round_key<0x02>(keys[1]);
  keys[3] = next_round_key<0x04>(keys[2]);
  keys[4] = next_round_key<0x08>(keys[3]);
  keys[5] = next_round_key<0x10>(keys[4]);
  keys[6] = next_round_key<0x20>(keys[5]);
  keys[7] = next_round_key<0x40>(keys[6]);
  keys[8] = next_round_key<0x80>(keys[7]);
  keys[9] = next_round_key<0x1b>(keys[8]);
  keys[10] = next_round_key<0x36>(keys[9]);
  AesRoundKeys out;
  static_assert(sizeof out == sizeof keys);
  std::memcpy(&out, keys, sizeof out);
  return out;
}

#else

bool has_aes_instructions() { return false; }

AesRoundKeys aes_round_keys(std::span<const std::uint8_t, 16>) {
  throw NumericError("this processor has no AES instructions that are known here");
}

namespace {

std::vector<AesVariant> find_variants() { return {}; }

}  // namespace

#endif

std::span<const AesVariant> aes_variants() {
  static const std::vector<AesVariant> variants = find_variants();
  return variants;
}

}  // namespace privgrad::core
