// AES-128 in counter mode with the processor's AES instructions: the source of the noise's bytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace privgrad::core {

// CounterCipher uses these instructions wherever the processor has them; AES then takes a fifth to
// a third of the time in which noise is made. Calling a library for every few thousand bytes would
// cost at least a quarter more. The instructions take the same time for every key and block.

/// The eleven round keys of FIPS 197, section 5.2; as secret as the key.
struct alignas(16) AesRoundKeys {
  std::array<std::array<std::uint8_t, 16>, 11> keys;
};

/// Whether the functions below may be called: on x86-64 with AES-NI, and with AVX2 in use
/// (instruction_set.hpp; processors with only one of the two are older than 2013).
bool has_aes_instructions();

AesRoundKeys aes_round_keys(std::span<const std::uint8_t, 16> key);

/// out = AES-128(key, domain || block), AES-128(key, domain || block + 1), ...; domain and block
/// are big-endian and modulo 2^64. The last block is truncated to the length of `out`.
using AesCounterFunction = void(const AesRoundKeys& keys, std::uint64_t domain, std::uint64_t block,
                                std::span<std::uint8_t> out);

struct AesVariant {
  std::string_view instruction_set;
  AesCounterFunction* counter_blocks;
};

/// The variants that this processor has and instruction_set() allows, the fastest first; all give
/// the same bytes. Empty if and only if has_aes_instructions() is false.
std::span<const AesVariant> aes_variants();

}  // namespace privgrad::core
