// Whether a program's promises about bits (reproducible rows, exact clipping) may support a proof.
#pragma once

#include "privgrad/backend.hpp"
#include "privgrad/operand_precision.hpp"

namespace privgrad::core {

/// Whether its arithmetic is specified, as that of float32 is.
inline bool is_specified(const Program& program) {
  const auto* coarse = dynamic_cast<const OperandPrecision*>(&program);
  return coarse == nullptr || coarse->is_specified();
}

inline bool has_reproducible_rows(const Program& program) {
  return dynamic_cast<const ReproducibleRows*>(&program) != nullptr && is_specified(program);
}

inline bool has_exact_clipping(const Program& program) {
  return dynamic_cast<const ExactClipping*>(&program) != nullptr && is_specified(program);
}

}  // namespace privgrad::core
