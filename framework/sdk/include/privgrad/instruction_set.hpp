// Which vector instructions code may use on this processor.
#pragma once

#include <string_view>

#include "privgrad/export.hpp"

namespace privgrad {

/// The instructions that code may use beyond those of every processor of this architecture. Each
/// level includes the previous ones; processors other than x86-64 only have `plain`.
enum class InstructionSet {
  plain = 1,  ///< None, not even the AES instructions: OpenSSL generates the noise bits.
  avx2,       ///< AVX2 and FMA; also the AES instructions, if the processor has them.
  avx512,     ///< AVX-512 F, DQ and VL.
};

/// The level by which loops with several versions choose one: the highest that this processor has,
/// or the one that the environment variable PRIVGRAD_INSTRUCTIONS names (`avx512`, `avx2` or
/// `plain`). The variable serves to compare levels, which differ only in speed: noise and releases
/// are the same bits. Read once, at the first call.
///
/// \throws ConfigError if PRIVGRAD_INSTRUCTIONS names no level, or one that the processor lacks.
PRIVGRAD_API InstructionSet instruction_set();

/// The level's name, as in PRIVGRAD_INSTRUCTIONS.
PRIVGRAD_API std::string_view name_of(InstructionSet level) noexcept;

}  // namespace privgrad
