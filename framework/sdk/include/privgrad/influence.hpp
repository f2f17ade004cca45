// How much each step's noise affects the end of training, and the best noise for a budget.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "privgrad/export.hpp"

namespace privgrad {

// The mathematics of Hong, Wang and Zhou 2022, for schedules and for predictions of their effect.
//
// The influence q_t > 0 of step t is the rate at which the expected final loss grows with
// sigma_t^2, the square of that step's noise multiplier. Its unit does not matter: multiplying all
// q_t by the same number changes no schedule. A budget R limits the noise multipliers by sum_t
// 1/sigma_t^2 <= R; full-batch Gaussian steps then cost R/2 in rho of zCDP.
//
// Steps are counted from 0 to T-1 here, and from 1 to T in the paper.

/// Returns the influence for gradient descent on a loss that shrinks by gamma in each step:
/// q_t = gamma^(T-1-t). Hong et al., Theorem 4.1.
/// \param steps  > 0.
/// \param gamma  in (0, 1].
/// \throws ConfigError if a value is too small for a double.
PRIVGRAD_API std::vector<double> exponential_influence(std::uint64_t steps, double gamma);

/// Returns the influence for gradient descent with bias-corrected momentum: the exact weights of
/// the noise in U_3 of Theorem 4.5. With the paper's counting,
///     w_i = sum_{t >= i} gamma^(T-t) ((1-beta)/(1-beta^t))^2 beta^(2(t-i)),
/// by the backward recursion w_i = a_i + beta^2 w_{i+1}, a_t = gamma^(T-t) ((1-beta)/(1-beta^t))^2.
/// Theorem 4.7 allocates by a bound on these weights, which is worse.
/// \param gamma  in (0, 1].
/// \param beta  in [0, 1).
/// \throws ConfigError as exponential_influence() does.
PRIVGRAD_API std::vector<double> momentum_influence(std::uint64_t steps, double gamma, double beta);

/// Returns a mixture of two exponentials, of which one rises to 1 at the last step, and the other
/// falls from 1 at the first step:
///     q_t = share * falling^t + (1 - share) * rising^(T-1-t)
/// (Hong et al.'s experiments with momentum, there called momexpinfl.)
/// \param rising, falling  in (0, 1].
/// \param share  in [0, 1].
/// \throws ConfigError as exponential_influence() does.
PRIVGRAD_API std::vector<double> two_exponential_influence(std::uint64_t steps, double rising,
                                                           double falling, double share);

/// Returns the noise multipliers that minimise sum_t q_t sigma_t^2 for a cost of `budget`:
///     sigma_t^2 = (1/R) sum_i sqrt(q_i / q_t)        (Hong et al., Lemma 4.3; Cauchy-Schwarz)
/// \param influence  at least one, each > 0 and finite.
/// \param budget  R, > 0.
/// \throws ConfigError that names a step with an invalid influence, or whose noise overflows.
PRIVGRAD_API std::vector<double> allocated_noise(std::span<const double> influence, double budget);

/// Computes allocated_noise() of exponential_influence(steps, gamma) in closed form (Hong et al.,
/// Theorem 4.4); gamma = 1 gives sigma_t^2 = T/R:
///     sigma_t^2 = (1/R) (gamma^(-T/2) - 1)/(1 - sqrt(gamma)) gamma^(t/2),   t = 1 ... T.
/// \throws ConfigError if the first step's noise overflows.
PRIVGRAD_API std::vector<double> exponentially_allocated_noise(std::uint64_t steps, double gamma,
                                                               double budget);

/// Returns the minimum that allocated_noise() attains: (sum_t sqrt(q_t))^2 / R. Uniform noise with
/// the same budget gives T sum_t q_t / R, which is larger by T^2 Var[sqrt(q_t)] / R.
PRIVGRAD_API double least_weighted_noise(std::span<const double> influence, double budget);

/// sum_t q_t sigma_t^2.
/// \param noise_multiplier  one per step.
PRIVGRAD_API double weighted_noise(std::span<const double> influence,
                                   std::span<const double> noise_multiplier);

/// Returns the budget that noise multipliers use: R = sum_t 1/sigma_t^2.
PRIVGRAD_API double budget_of_noise(std::span<const double> noise_multiplier);

/// initial * exp(-rate * t), t = 0, 1, ...
struct ExponentialDecay {
  double initial = 0.0;
  double rate = 0.0;
};

/// Returns the exponential decay that fits the values best in the least-squares sense.
/// \param values  at least one, finite and > 0.
PRIVGRAD_API ExponentialDecay fit_exponential_decay(std::span<const double> values);

/// A measurement of one step's influence.
struct InfluenceEstimate {
  std::uint64_t step = 0;       ///< From 0.
  double influence = 0.0;       ///< May be negative, because it is an estimate.
  double standard_error = 0.0;  ///< >= 0; 0: unknown.
};

/// The least-squares fit of the exponential c gamma^(T-1-t) to the estimates, with the weights
/// 1/standard_error^2 if all are known, and equal weights otherwise.
/// \param estimates  estimates for at least two different steps.
/// \returns gamma > 0, above 1 if the influence falls.
/// \throws ConfigError if there are too few estimates, or if no estimate is above 0.
PRIVGRAD_API double fit_exponential_influence(std::span<const InfluenceEstimate> estimates);

}  // namespace privgrad
