#pragma once

#include "privgrad/backend.hpp"
#include "privgrad/operand_precision.hpp"

// Whether what a program promises of bits is ground for a proof.
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
