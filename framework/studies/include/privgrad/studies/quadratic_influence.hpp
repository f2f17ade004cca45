// The influence of each step's noise in closed form, for models whose loss is quadratic.
#pragma once

#include <cstddef>
#include <vector>

#include "privgrad/optimizer.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// Gradient descent on a quadratic loss with noise in each gradient, along the axes of the Hessian.
struct QuadraticDescent {
  std::vector<double> eigenvalues;  ///< Eigenvalues of one output's Hessian; >= 0.
  /// The number of identical outputs, each with its own parameters and noise.
  double outputs = 1.0;
  std::vector<double> learning_rate;  ///< One per step.
  /// One per step: the noise in a coordinate of the mean gradient for noise multiplier 1, that is,
  /// clip norm / batch size.
  std::vector<double> noise_unit;
  /// The optimizer's rule; one per step.
  std::vector<StepRule> optimizer;
};

/// The exact influence of each step's noise on the expected loss at the end. With lambda_j the
/// eigenvalues, and a_t(lambda) the effect of a unit of noise in step t on the last iterate,
///     q_t = 1/2 outputs noise_unit_t^2 sum_j lambda_j a_t(lambda_j)^2.
/// For plain descent with learning rates r_t, a_t(lambda) = -r_t prod_{s>t} (1 - r_s lambda).
/// Clipping is ignored.
std::vector<double> quadratic_influence(const QuadraticDescent& descent);

/// The eigenvalues of a symmetric matrix, ascending (Jacobi's method).
/// \param matrix  row-major, [size, size].
/// \throws NumericError if it does not converge.
std::vector<double> symmetric_eigenvalues(std::vector<double> matrix, std::size_t size);

/// The descent that a plan describes, if its loss is quadratic: one dense layer with squared loss,
/// under an optimizer with a linear rule (StepRule: descent, momentum). Reads the training rows, so
/// the result is as private as the rows.
/// \throws ConfigError for any other plan, with what makes a loss quadratic, or for over 1999
///   features.
QuadraticDescent quadratic_descent_of(const Plan& plan);

}  // namespace privgrad::core
