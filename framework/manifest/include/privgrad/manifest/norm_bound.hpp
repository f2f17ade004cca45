// Bounds the gradient norms that Tran and Cutkosky's two algorithms are promised to reach.
#pragma once

#include <cstdint>

namespace privgrad::core {

/// The constants of Tran and Cutkosky 2022: batches of one, a new order of the examples in every
/// epoch, the learning rate 1/sqrt(N T). f is L-smooth, and each example's loss has no gradient
/// longer than G.
struct NormFacts {
  double parameters = 0.0;   ///< d, > 0.
  double clip_norm = 0.0;    ///< G, > 0.
  double smoothness = 0.0;   ///< L, > 0.
  double examples = 0.0;     ///< N, > 0.
  double initial_gap = 0.0;  ///< R, the first loss less the least one, > 0.
  double epsilon = 0.0;      ///< > 0.
  double delta = 0.0;        ///< In (0, 1).
};

/// Two upper bounds on the expected gradient norm of an iterate drawn at random from all.
struct NormBound {
  double steps = 0.0;    ///< The theorem's T, not rounded.
  double printed = 0.0;  ///< The theorem's last line.
  double proved = 0.0;   ///< What the lemmas that its proof adds up come to.
};

/// Theorem 6, of momentum by tree aggregation (Algorithm 1): T log2(T) = epsilon N^2 / sqrt(d
/// ln(1/delta)), and the lemmas 5, 11 and 12. The printed line lacks a factor of sqrt(log2 T)
/// ln^(1/4)(1/delta) on R.
NormBound norm_bound_of_tree(const NormFacts& facts);

/// Theorem 9, with the variance reduced (Algorithm 2): T = N^(7/3) epsilon^(4/3) d^(-2/3), and the
/// lemmas 5, 7 and 11. Its proof also needs the same order in every epoch, which Lemma 11 excludes
/// (docs/experiments/tran2022.md).
NormBound norm_bound_of_reduced_tree(const NormFacts& facts);

}  // namespace privgrad::core
