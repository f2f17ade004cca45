// Whether a program's promises about bits (reproducible rows, exact clipping) may support a proof.
#pragma once

#include "privgrad/backend.hpp"
#include "privgrad/operand_precision.hpp"
#include "privgrad/trust/program_around.hpp"

namespace privgrad::core {

/// Whether its arithmetic is specified, as that of float32 is, down to the innermost program.
inline bool is_specified(const Program& program) {
  const auto* coarse = dynamic_cast<const OperandPrecision*>(&program);
  const auto* around = dynamic_cast<const ProgramAround*>(&program);
  return (coarse == nullptr || coarse->is_specified()) &&
         (around == nullptr || is_specified(around->inside()));
}

inline bool has_reproducible_rows(const Program& program) {
  return ability_of<ReproducibleRows>(program) != nullptr && is_specified(program);
}

inline bool has_exact_clipping(const Program& program) {
  return ability_of<ExactClipping>(program) != nullptr && is_specified(program);
}

}  // namespace privgrad::core
