// Which vector instructions code may use on this processor.
#pragma once

#include <string_view>

#include "privgrad/export.hpp"

namespace privgrad {

/// The instructions that code may use besides the basic instructions of the architecture. Each
/// level includes the previous ones; processors other than x86-64 only have `plain`.
enum class InstructionSet {
  plain = 1,  ///< None, not even the AES instructions: OpenSSL generates the noise bits.
  avx2,       ///< AVX2 and FMA; also the AES instructions, if the processor has them.
  avx512,     ///< AVX-512 F, DQ and VL.
};

/// The level that decides which version of a loop runs: the highest level of this processor, or the
/// level in the environment variable PRIVGRAD_INSTRUCTIONS (`avx512`, `avx2` or `plain`). The
/// variable is for comparing levels, which differ only in speed: noise and releases have the same
/// bits. Read once, at the first call.
///
/// \throws ConfigError if PRIVGRAD_INSTRUCTIONS is not a level, or a level that the processor
///   lacks.
PRIVGRAD_API InstructionSet instruction_set();

/// Returns the level's name, as in PRIVGRAD_INSTRUCTIONS.
PRIVGRAD_API std::string_view name_of(InstructionSet level) noexcept;

}  // namespace privgrad
