#include "privgrad/instruction_set.hpp"

#include <cstdlib>
#include <string>

#include "privgrad/error.hpp"

namespace privgrad {
namespace {

InstructionSet highest_of_processor() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return InstructionSet::plain;
  const bool wider = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                     __builtin_cpu_supports("avx512vl");
  return wider ? InstructionSet::avx512 : InstructionSet::avx2;
#else
  return InstructionSet::plain;
#endif
}

InstructionSet level_named(const std::string& name) {
  for (const auto level : {InstructionSet::plain, InstructionSet::avx2, InstructionSet::avx512}) {
    if (name == name_of(level)) return level;
  }
  throw ConfigError("PRIVGRAD_INSTRUCTIONS is '" + name + "', allowed are avx512, avx2 and plain");
}

InstructionSet choose() {
  const InstructionSet highest = highest_of_processor();
  const char* name = std::getenv("PRIVGRAD_INSTRUCTIONS");
  if (name == nullptr) return highest;
  const InstructionSet level = level_named(name);
  if (level > highest) {
    throw ConfigError("PRIVGRAD_INSTRUCTIONS is '" + std::string(name) +
                      "', which this processor lacks; leave it unset for the highest it has");
  }
  return level;
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet chosen = choose();
  return chosen;
}

std::string_view name_of(InstructionSet level) noexcept {
  switch (level) {
    case InstructionSet::avx512:
      return "avx512";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::plain:
      break;
  }
  return "plain";
}

}  // namespace privgrad
