#include "privgrad/trust/aes_instructions.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "privgrad/error.hpp"
#include "privgrad/instruction_set.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace privgrad::core {

#if defined(__x86_64__)

namespace {

#define PRIVGRAD_AES [[gnu::target("aes,sse4.1")]]

constexpr std::size_t kBlockBytes = 16;
/// Blocks on their way at the same time: an instruction takes four cycles, one can start in each.
constexpr std::size_t kTogether = 8;

template <int RoundConstant>
PRIVGRAD_AES __m128i next_round_key(__m128i key) {
  const __m128i word =
      _mm_shuffle_epi32(_mm_aeskeygenassist_si128(key, RoundConstant), _MM_SHUFFLE(3, 3, 3, 3));
  // Each word is the sum of those before it in the last key: three shifted additions.
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

PRIVGRAD_AES void aes_counter_blocks(const AesRoundKeys& round_keys, std::uint64_t domain,
                                     std::uint64_t block, std::span<std::uint8_t> out) {
  __m128i keys[11];
  std::memcpy(keys, &round_keys, sizeof keys);
  while (out.size() >= kTogether * kBlockBytes) {
    encrypt<kTogether>(keys, domain, block, out.data());
    block += kTogether;
    out = out.subspan(kTogether * kBlockBytes);
  }
  while (!out.empty()) {
    std::uint8_t last[kBlockBytes];
    encrypt<1>(keys, domain, block++, last);
    const std::size_t size = std::min(out.size(), kBlockBytes);
    std::copy_n(last, size, out.begin());
    out = out.subspan(size);
  }
}

#else

bool has_aes_instructions() { return false; }

AesRoundKeys aes_round_keys(std::span<const std::uint8_t, 16>) {
  throw NumericError("this processor has no AES instructions that are known here");
}

void aes_counter_blocks(const AesRoundKeys&, std::uint64_t, std::uint64_t,
                        std::span<std::uint8_t>) {
  throw NumericError("this processor has no AES instructions that are known here");
}

#endif

}  // namespace privgrad::core
