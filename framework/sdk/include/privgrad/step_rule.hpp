// The update rules of optimizers that other code, such as a GPU kernel, can carry out bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "privgrad/export.hpp"

namespace privgrad {

/// The rule by which one step updates each parameter w, and up to two numbers of the optimizer's
/// state, from its own coordinate g of the released gradient. It contains only public constants;
/// every operation is rounded once, in the order written here, so that all code that follows the
/// rule gets the same bits:
///
///     descent:   w <- w - float(rate) * g                                             (in float32)
///     momentum:  v <- float(keep * v + take * g),   w <- float(w - rate * v)           (in double)
///     adam:      m <- float(keep * m + take * g),                                      (in double)
///                r <- float(sqrt(keep_squares * (r * r) + take_squares * (g * g))),
///                w <- float(w - rate * m / (root_scale * r + epsilon))
///
/// where later lines use the new v, m and r, and the quotient is (rate * m) / (...).
struct StepRule {
  enum class Kind : std::uint32_t { descent = 1, momentum, adam };

  Kind kind = Kind::descent;
  double rate = 0.0;  ///< Finite, even as a float32.
  double keep = 0.0, take = 0.0;
  double keep_squares = 0.0, take_squares = 0.0, root_scale = 0.0, epsilon = 0.0;
};

/// The number of state vectors, each with one number per parameter: 0, 1 (v) or 2 (m, then r).
PRIVGRAD_API std::size_t state_vectors(StepRule::Kind kind);

/// Makes a step. This is the reference for all other implementations.
/// \param parameters, gradient  vectors of the same length.
/// \param first, second  the state vectors, of the same length; empty if the kind lacks them.
PRIVGRAD_API void apply(const StepRule& rule, std::span<float> parameters, std::span<float> first,
                        std::span<float> second, std::span<const float> gradient);

}  // namespace privgrad
