// Bounds on the gradient norms that the algorithms of Tran and Cutkosky 2022 reach.
#pragma once

namespace privgrad::core {

/// The constants of Tran and Cutkosky 2022, who assume batches of one example, a new order of the
/// examples in every epoch, and the learning rate 1/sqrt(N T) in T steps. Each example's loss f is
/// L-smooth, with gradients whose norms are at most G; F is the mean of f over the examples.
struct NormFacts {
  double parameters = 0.0;   ///< d, > 0.
  double clip_norm = 0.0;    ///< G, > 0.
  double smoothness = 0.0;   ///< L, > 0.
  double examples = 0.0;     ///< N, > 0.
  double initial_gap = 0.0;  ///< R, the first loss minus the smallest possible loss, > 0.
  double epsilon = 0.0;      ///< > 0.
  double delta = 0.0;        ///< In (0, 1).
};

/// Lemma 5, for normalized steps w' = w - eta m/|m| along any vectors m. With e = m - grad F(w),
///
///     <grad F, m/|m|> = |m| - <e, m/|m|> >= |m| - |e| >= |grad F| - 2 |e|,
///
/// and smoothness gives F(w') <= F(w) - eta |grad F| + 2 eta |e| + L eta^2 / 2, which is summed
/// over the steps. The bound's three constants (1, 1/2 and 2) are tight. The printed lemma's bound
/// is 3/2 times as large.
/// \param fall  F at the first iterate minus F after the last step.
/// \param mean_error  the mean of |e|.
/// \returns a bound on the mean of |grad F| over the iterates at which steps begin.
double norm_along_descent(double fall, double learning_rate, double smoothness, double steps,
                          double mean_error);

/// The quantities on which the error of momentum depends.
struct MomentumFacts {
  double clip_norm = 0.0;      ///< G.
  double smoothness = 0.0;     ///< L, of each example's loss.
  double examples = 0.0;       ///< N.
  double learning_rate = 0.0;  ///< eta, the length of each step.
  /// In (0, 1]; the momentum of gradients g_t is m_t = (1 - alpha) m_{t-1} + alpha g_t.
  double alpha = 0.0;
};

/// Evaluates Lemma 11, corrected: bounds the distance of m_t from grad F(w_t) without noise, in the
/// mean over orders, for batches of one example in an order that is redrawn in every epoch.
/// The printed lemma is false: m_0 = 0 has the weight (1 - alpha)^t in m_t, so if all examples have
/// the same gradient of length G, the error is (1 - alpha)^t G, but the paper's bound is
/// 2 G sqrt(alpha). The terms, with i the step of a gradient, k = t - i, and a(i) the first step of
/// i's epoch:
/// - the start: (1 - alpha)^t |grad F(w_t)|;
/// - the order: gradients at w_a(i) are drawn without replacement, so their cross terms are at most
///   0, and each variance is at most G^2, which gives G sqrt(sum alpha^2 (1 - alpha)^(2k));
/// - the epoch: w_i is at most (N - 1) steps from w_a(i), which counts once for f and once for F;
/// - the memory: w_i is k steps from w_t, which gives eta L sum alpha (1 - alpha)^k k.
/// \param share_of_start  (1 - alpha)^t, or its mean over steps.
double momentum_error(const MomentumFacts& facts, double share_of_start);

/// Two upper bounds on the expected gradient norm at an iterate drawn uniformly from all
/// iterates.
struct NormBound {
  double steps = 0.0;    ///< The theorem's T, not rounded.
  double printed = 0.0;  ///< The bound in the theorem's last line.
  double proved = 0.0;   ///< The bound from the theorem's lemmas as corrected here.
};

/// Evaluates Theorem 6, for momentum by tree aggregation (Algorithm 1), with
/// T log2(T) = epsilon N^2 / sqrt(d ln(1/delta)), lemmas 5, 11 and 12, and the noise of the printed
/// algorithm. A release has up to log2(T) + 1 nodes, not log2(T), and the paper's V is at most
/// (log2(N) + 3) T / N. The printed line lacks a factor of sqrt(log2 T) ln^(1/4)(1/delta) on R, and
/// a factor of 4 on the noise: its proof substitutes 4 log2(T) T / N for V and
/// 2 sqrt(ln(1/delta)) / epsilon for the noise's sigma, and then drops both the 2 from the root of
/// V and the 2 from sigma.
NormBound norm_bound_of_tree(const NormFacts& facts);

/// Evaluates Theorem 9, with the variance reduced (Algorithm 2), for the number of steps
/// T = N^(7/3) epsilon^(4/3) d^(-2/3), with lemmas 5 and 11 corrected and lemma 7 as printed. The
/// theorem's proof also needs the same order in every epoch, which Lemma 11 excludes
/// (docs/experiments/tran2022.md).
NormBound norm_bound_of_reduced_tree(const NormFacts& facts);

}  // namespace privgrad::core
