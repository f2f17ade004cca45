// A macro that compiles a loop for several instruction sets and chooses one version at run time.
#pragma once

#include "privgrad/instruction_set.hpp"

// Each loop has one body, one function for each instruction set, which the compiler vectorises, and
// one function that chooses among these. Bodies must be inlined, because otherwise they are
// compiled for the portable instruction set. There is no fused multiply-add, so all functions give
// the same results.
#define PRIVGRAD_INLINE [[gnu::always_inline]] inline

// Unrolls loops over registers before g++ decides which values stay in registers.
#define PRIVGRAD_UNROLLED _Pragma("GCC unroll 16")

#ifdef __x86_64__
#define PRIVGRAD_LOOP(result, name, parameters, arguments)                                \
  namespace {                                                                             \
  result name##_portable parameters { return name##_body arguments; }                     \
  [[gnu::target("avx2")]] result name##_avx2 parameters { return name##_body arguments; } \
  }                                                                                       \
  result name parameters {                                                                \
    return instruction_set() >= InstructionSet::avx2 ? name##_avx2 arguments              \
                                                     : name##_portable arguments;         \
  }
#else
#define PRIVGRAD_LOOP(result, name, parameters, arguments) \
  result name parameters { return name##_body arguments; }
#endif
