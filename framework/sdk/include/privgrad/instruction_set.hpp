// Which vector instructions code may use on this processor.
#pragma once

#include <string_view>

#include "privgrad/export.hpp"

namespace privgrad {

/// The instructions that code may use beyond those that every processor of this architecture has.
/// Each level includes those before it; on processors other than x86-64 there is only `plain`.
enum class InstructionSet {
  plain = 1,  ///< Nothing. Not the AES instructions either: OpenSSL makes the noise's bytes.
  avx2,       ///< AVX2 and FMA; the AES instructions, where the processor has them.
  avx512,     ///< AVX-512 F, DQ and VL.
};

/// The level that loops with a version of their own for each level choose it by: the highest that
/// this processor has or, where the environment variable PRIVGRAD_INSTRUCTIONS is set, the one that
/// it names (`avx512`, `avx2` or `plain`). It is there to compare the levels: the noise and the
/// releases are the same at each, bit for bit, and only times differ. Read once, at the first call.
///
/// \throws ConfigError if PRIVGRAD_INSTRUCTIONS names no level, or one that the processor lacks.
PRIVGRAD_API InstructionSet instruction_set();

/// The level's name, as in PRIVGRAD_INSTRUCTIONS.
PRIVGRAD_API std::string_view name_of(InstructionSet level) noexcept;

}  // namespace privgrad
