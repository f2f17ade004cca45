// Predicts the utility of private training, by the bounds of Hong, Wang and Zhou 2022.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace privgrad::core {

// The bounds for concrete numbers, corrected; docs/algorithms/dynamic-budget.md lists the errors in
// the printed bounds.
//
// f is M-smooth with the minimum f*, the examples' losses are G-Lipschitz (clipping to G ensures
// this, but changes f), and f satisfies the Polyak-Lojasiewicz condition with mu:
// |grad f|^2 >= 2 mu (f - f*). Then kappa = M/mu is at least 1, and gamma = 1 - 1/kappa. The noise
// multipliers sigma_t of T steps cost R = sum_t 1/sigma_t^2, which is twice the rho of zCDP for
// full batches under add_or_remove_one and zero_out. A bound limits the expected excess risk after
// the last step, divided by the excess risk before the first step; 1 means no progress.

/// How a budget is divided over the steps.
enum class BudgetSplit {
  uniform = 1,  ///< sigma_t^2 = T/R.
  dynamic,      ///< According to each step's influence: Lemma 4.3.
};

/// alpha = D G^2 / (2 R M N^2 (f(theta_1) - f*)), the paper's Eq. 4: the factor of the noise in the
/// bounds below.
struct AlphaFacts {
  double parameters = 0.0;   ///< D, > 0.
  double clip_norm = 0.0;    ///< G, > 0.
  double budget = 0.0;       ///< R, > 0.
  double smoothness = 0.0;   ///< M, > 0.
  double examples = 0.0;     ///< N, > 0; for stochastic gradients, the batch size.
  double initial_gap = 0.0;  ///< f(theta_1) - f*, > 0.
};
double alpha_of(const AlphaFacts& facts);

/// Returns the rho for which rho + 2 sqrt(rho L) = epsilon, with L = ln(1/delta):
/// epsilon + 2 L - 2 sqrt(L (L + epsilon)). The paper has a plus for the last minus, by mistake.
/// \param epsilon  > 0.
/// \param delta  in (0, 1).
double rho_for(double epsilon, double delta);

/// The bounds of gradient descent with learning rate 1/M.
struct Descent {
  double kappa = 1.0;  ///< >= 1.
  double alpha = 0.0;  ///< > 0.

  double gamma() const { return 1.0 - 1.0 / kappa; }
  /// Returns gamma^T + alpha R sum_t gamma^(T-t) sigma_t^2 (Theorem 4.1), for any noise
  /// multipliers; alpha must be computed with the budget R of these multipliers.
  double bound(std::span<const double> noise_multiplier) const;
  /// Returns the bound after each step, with the budget of all steps: [0] is 1, before the first
  /// step; the last element is bound(noise_multiplier).
  std::vector<double> bounds(std::span<const double> noise_multiplier) const;
  /// Returns gamma^T + alpha kappa (1 - gamma^T) T for uniform noise, and
  /// gamma^T + alpha ((1 - gamma^(T/2))/(1 - sqrt(gamma)))^2 for dynamic noise; 1 for no steps.
  double bound(std::uint64_t steps, BudgetSplit split) const;
};

/// Gradient descent with learning rate eta = eta0/(2M) and bias-corrected momentum
/// v_t = sum_i c_ti g_i, c_ti = (1-beta) beta^(t-i) / (1-beta^t): Theorem 4.5, corrected. The
/// paper's proof (Eq. 28) drops the factor 1/2 in -<grad, v> = (|grad - v|^2 - |grad|^2 - |v|^2)/2,
/// and its bound is exceeded even without noise. With this factor, by smoothness and the
/// Polyak-Lojasiewicz condition,
///
///     f_{t+1} - f* <= (1 - eta mu) (f_t - f*)
///                     + (eta/2) |grad_t - v_t|^2 - (eta/2) (1 - M eta) |v_t|^2,
///
/// and eta mu = eta0/(2 kappa). grad_t - v_t is the lag of the gradients of earlier steps minus the
/// noise. Lag and noise are not independent, so |a + b|^2 <= 2|a|^2 + 2|b|^2 separates them. Noise
/// has, in each of D coordinates, the variance (G/N)^2 sum_i c_ti^2 sigma_i^2; summed over the
/// steps this gives eta D (G/N)^2 sum_i w_i sigma_i^2, with w from momentum_influence(), and
/// eta0 alpha R sum_i w_i sigma_i^2 after division by the first gap. The lag is at most
/// M eta sum_i c_ti sum_{i<=j<t} |v_j|. By Jensen's inequality, the sum of its squares over the
/// steps is at most a sum of M^2 eta^2 C |v_j|^2, with C from zeta(). If zeta >= 0, the negative
/// last term above is at least as large.
struct MomentumDescent {
  double kappa = 1.0;  ///< >= 1.
  double alpha = 0.0;  ///< > 0.
  double beta = 0.9;   ///< In (0, 1).
  double eta0 = 0.0;   ///< In (0, most_eta0()].
  /// For stochastic gradients: D sigma_g^2 / (2 M n^2 (f_1 - f*)), >= 0, with sigma_g and n as in
  /// sampling_term(). Sampling noise adds eta0 * sampling * sum_i w_i to a bound: it acts like the
  /// privacy noise, with the same variance in each step (Theorem 4.9, here with the exact sum). The
  /// added term is at most 2 kappa * sampling, since each term of sum_i w_i =
  /// sum_t gamma^(T-t) (1-beta) (1+beta^t) / ((1+beta)(1-beta^t)) is at most gamma^(T-t).
  double sampling = 0.0;

  double gamma() const { return 1.0 - eta0 / (2.0 * kappa); }
  /// Returns zeta = 1 - eta0/2 - (eta0^2/2) C; the proof needs zeta >= 0 and gamma > beta. Here
  /// C = beta gamma (1 - beta^2/gamma) / ((gamma-beta)^2 (1-beta)^2), an upper bound on the weight
  /// of |v_j|^2 in the steps after j, which equals sum_{s>=1} gamma^-s sum_{k>=s} k beta^k.
  double zeta() const;
  /// Returns the largest eta0 that the proof allows, by a root search, because gamma depends on it.
  static double most_eta0(double kappa, double beta);
  /// Returns gamma^T + eta0 alpha R sum_i w_i sigma_i^2, with the exact w of momentum_influence(),
  /// plus eta0 * sampling * sum_i w_i.
  double bound(std::span<const double> noise_multiplier) const;
  double bound(std::uint64_t steps, BudgetSplit split) const;
};

/// Returns the term that sampling noise adds for batches of n examples:
/// kappa alpha R' sigma_g^2 / G^2 (1 - gamma^T) <= D sigma_g^2 / (2 mu n^2 (f_1 - f*)), with alpha
/// and R' = R N^2/n^2 for batches (proof of Theorem 4.8; the theorem prints N^2 R in place of n^2,
/// which is the same for its choice of n). The formula says nothing about the privacy of the
/// sampled steps; zCDP has no amplification by sampling.
/// \param gradient_noise  sigma_g, >= 0.
double sampling_term(double parameters, double gradient_noise, double pl_constant,
                     double batch_size, double initial_gap);

/// The integer T with the smallest bound, and that bound.
struct BestSteps {
  std::uint64_t steps = 0;
  double bound = 1.0;  ///< If it is above 1, making no steps is better.
};
BestSteps best_steps(const Descent& descent, BudgetSplit split, std::uint64_t most);
BestSteps best_steps(const MomentumDescent& descent, BudgetSplit split, std::uint64_t most);

/// Returns the best T of gradient descent by the paper's printed formulas, for comparison:
/// ln(1 + ln(1/gamma) / alpha) / ln(1/gamma) for uniform noise (Eq. 24),
/// 2 kappa ln(1 + 1/(kappa alpha)) for dynamic noise (Theorem 4.4); rounded, at least 1. Both are
/// far from the true best T.
std::uint64_t printed_steps(const Descent& descent, BudgetSplit split);

/// The constants that the true_risk functions need in addition to a bound.
struct RiskFacts {
  double clip_norm = 0.0;    ///< G.
  double smoothness = 0.0;   ///< M.
  double pl_constant = 0.0;  ///< mu, here of strong convexity.
  double examples = 0.0;     ///< N.
  double initial_gap = 0.0;  ///< f(theta_1) - f*.
};

/// Whether a loss with these constants can exist. If a loss is mu-strongly convex and G-Lipschitz
/// in the region of training, |grad|^2 >= 2 mu (f_1 - f*), so f_1 - f* <= G^2 / (2 mu). The bounds
/// on true risks assume such losses.
bool is_possible(const RiskFacts& facts);

/// Returns the expected true risk, by uniform stability: bound * gap + 2 G^2 eta T / N, where the
/// gap is initial_gap and eta = 1/M (Theorems 4.11 and 4.12; Hardt, Recht and Singer 2016, Theorem
/// 3.8). Stability concerns exchanging one example for another, which changes a step by up to
/// 2 G eta / N; the printed bound lacks the 2.
double true_risk_by_stability(const RiskFacts& facts, double bound, std::uint64_t steps);

/// The true risk with high probability: sqrt(2 G^2 / mu) sqrt(x) + 4 G^2 / (p mu N), with x the
/// excess risk of the best of k = ceil(log2(1/p)) runs, each with a budget of R/k (Shalev-Shwartz,
/// Shamir, Srebro and Sridharan 2009, for a mean of N strongly convex G-Lipschitz losses). Eq. 15
/// prints mu N instead of mu in the first term too, which makes it too small by sqrt(N). By
/// Markov's inequality x <= 2 gap bound(R/k), except with probability 2^-k <= p; the printed bound
/// lacks the 2. The total failure probability is 2p, not p, and choosing the best of the k runs is
/// not charged.
/// \param bound_of_one  the bound of one run with a budget of R/k.
/// \param p  in (0, 1).
double true_risk_in_probability(const RiskFacts& facts, double bound_of_one, double p);
/// Returns the number k of runs: ceil(log2(1/p)), at least 1.
/// \param p  in (0, 1).
std::uint64_t repetitions_for(double p);

/// A row of the paper's tables of asymptotic bounds, with every constant set to 1 and N, D, R
/// substituted. Such rows show how bounds grow, but do not predict a risk.
struct TableRow {
  std::string table;      ///< "1" (empirical risk) or "2" (true risk).
  std::string algorithm;  ///< As the paper prints it.
  std::string formula;
  double value = 0.0;
  std::string steps_formula = {};  ///< The formula for the number of steps, T.
  double steps = 0.0;
};
/// \param budget  R.
/// \param epsilon, delta  used for the rows whose budget is
///   R_{epsilon,delta} = epsilon^2 / ln(1/delta).
/// \param pl_constant  mu.
/// \param clip_norm  G.
/// \param p  failure probability.
std::vector<TableRow> table_rows(double examples, double parameters, double budget, double epsilon,
                                 double delta, double pl_constant, double clip_norm, double p);

}  // namespace privgrad::core
