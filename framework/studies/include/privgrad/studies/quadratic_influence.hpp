// The influence of each step's noise in closed form, for models whose loss is quadratic.
#pragma once

#include <cstddef>
#include <vector>

#include "privgrad/optimizer.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// Gradient descent on a quadratic loss with noise in each gradient, along the axes of the Hessian.
struct QuadraticDescent {
  std::vector<double> eigenvalues;    ///< One output's Hessian's; >= 0.
  double outputs = 1.0;               ///< Identical ones, each with its own parameters and noise.
  std::vector<double> learning_rate;  ///< One per step.
  std::vector<double> noise_unit;     ///< One per step: the noise in a coordinate of the mean
                                      ///< gradient at noise multiplier 1, clip norm / batch size.
  /// The optimizer's rule; one per step.
  std::vector<StepRule> optimizer;
};

/// The influence of each step's noise on the expected loss at the end, exactly: with a_t the effect
/// of a unit of noise in step t on the last iterate,
///     q_t = 1/2 outputs noise_unit_t^2 sum_j lambda_j a_t(lambda_j)^2.
/// For plain descent a_t = rate_t prod_{s>t} (1 - rate_s lambda). Nothing is clipped here.
std::vector<double> quadratic_influence(const QuadraticDescent& descent);

/// The eigenvalues of a symmetric matrix, ascending (Jacobi's method).
/// \param matrix  row-major, [size, size].
/// \throws NumericError if it does not converge.
std::vector<double> symmetric_eigenvalues(std::vector<double> matrix, std::size_t size);

/// The descent that a plan describes, if its loss is quadratic: one dense layer with squared loss,
/// under an optimizer whose rule is linear (StepRule: descent, momentum). Reads the training rows: as private as they
/// are.
/// \throws ConfigError if it is not, saying which plans are.
QuadraticDescent quadratic_descent_of(const Plan& plan);

}  // namespace privgrad::core
