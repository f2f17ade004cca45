// Runs a loop with AVX2 if the processor has it, with the same results.
#pragma once

#include "privgrad/instruction_set.hpp"

namespace privgrad {

#if defined(__x86_64__)
template <class Loop>
[[gnu::target("avx2"), gnu::flatten]] void with_avx2(const Loop& loop) {
  loop();
}
#endif

/// Calls `loop`, compiled for AVX2 if instruction_set() allows it. The IEEE operations are the same
/// in both versions (AVX2 alone has no fused multiply-add into which they could be contracted), and
/// so are the results.
template <class Loop>
void in_wide_registers(const Loop& loop) {
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::avx2) return with_avx2(loop);
#endif
  loop();
}

}  // namespace privgrad
