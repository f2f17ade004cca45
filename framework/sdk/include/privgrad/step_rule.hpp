// The update rules of optimizers that others, such as a GPU, can carry out bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "privgrad/export.hpp"

namespace privgrad {

/// The rule by which one step moves each parameter w, and up to two numbers of the optimizer's
/// state, by its own coordinate g of the released gradient. Public constants alone; every operation
/// is rounded once, in the order written here, so that everybody who follows the rule gets the same
/// bits:
///
///     descent:   w <- w - float(rate) * g                                              (in float32)
///     momentum:  v <- float(keep * v + take * g),   w <- float(w - rate * v)           (in double)
///     adam:      m <- float(keep * m + take * g),                                      (in double)
///                r <- float(sqrt(keep_squares * (r * r) + take_squares * (g * g))),
///                w <- float(w - rate * m / (root_scale * r + epsilon))
///
/// with the new v, m and r in what follows them, and (rate * m) divided.
struct StepRule {
  enum class Kind : std::uint32_t { descent = 1, momentum, adam };

  Kind kind = Kind::descent;
  double rate = 0.0;  ///< Finite, as a float32 too.
  double keep = 0.0, take = 0.0;
  double keep_squares = 0.0, take_squares = 0.0, root_scale = 0.0, epsilon = 0.0;
};

/// Vectors of state, a number for each parameter in each: 0, 1 (v) or 2 (m, then r).
PRIVGRAD_API std::size_t state_vectors(StepRule::Kind kind);

/// Makes a step: the definition that all others are compared with.
/// \param parameters, gradient  vectors of the same length.
/// \param first, second  the vectors of state, of the same length; empty if the kind has none.
PRIVGRAD_API void apply(const StepRule& rule, std::span<float> parameters, std::span<float> first,
                        std::span<float> second, std::span<const float> gradient);

}  // namespace privgrad
