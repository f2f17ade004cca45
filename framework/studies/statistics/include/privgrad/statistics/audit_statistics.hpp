// Lower bounds on epsilon from an audit's right guesses: only the statistics, without any run.
#pragma once

#include <cstdint>
#include <functional>

/// Lower bounds on epsilon from guesses about which canaries were in the data. Pure functions.
///
/// The experiment: m independent fair coins each decide between two neighbouring data sets (a
/// canary is present or not). From the releases, r coins are guessed, and v of these guesses are
/// right. A guarantee limits how often guesses are right; a lower bound on epsilon at confidence
/// 1 - a is the largest epsilon for which P[v or more guesses are right] is below a.
///
/// Why searching among all epsilons is valid: an epsilon is rejected if v is large enough, and a
/// larger epsilon needs a larger v. Rejecting an epsilon below the true one is not an error. If an
/// epsilon above the true one is rejected, the true epsilon is rejected too, which has probability
/// at most a.
namespace privgrad::core {

struct Guesses {
  std::uint64_t canaries = 0;  ///< m, the number of coins, or of repeated runs.
  std::uint64_t made = 0;      ///< r <= m, fixed before the coins are flipped.
  std::uint64_t correct = 0;   ///< v <= r.
};

/// Returns P[Binomial(n, p) >= k].
/// \param p  in [0, 1].
double binomial_tail(std::uint64_t n, double p, std::uint64_t k);

/// A lower confidence limit (Clopper and Pearson 1934): it exceeds the success probability with
/// probability at most `level`.
/// \returns the p with P[Binomial(trials, p) >= successes] = level; 0 without successes.
double proportion_above(std::uint64_t successes, std::uint64_t trials, double level);
/// The upper confidence limit; 1 without failures.
double proportion_below(std::uint64_t successes, std::uint64_t trials, double level);

/// An upper bound on the probability of guesses that are at least this good under (epsilon,
/// delta)-privacy. (Steinke, Nasr and Jagielski 2023, Theorem 5.2 with guesses in {-1, 0, 1}.)
///
/// With W = Binomial(r, e^epsilon / (1 + e^epsilon)), the bound is P[W >= v] + 2 m delta s, where s
/// is the largest P[v > W >= v - i] / i for i in [1, v].
/// \param epsilon  >= 0.
/// \param delta    in [0, 1].
double one_run_p_value(const Guesses& guesses, double epsilon, double delta);

/// \returns the largest epsilon that one_run_p_value() excludes at this level; 0 if there is none.
double one_run_epsilon(const Guesses& guesses, double delta, double level);

/// A symmetric trade-off function f: a test with false alarm probability x misses with probability
/// at least f(x). (Dong, Roth and Su 2022.)
struct TradeOff {
  /// (epsilon, delta)-privacy: max(0, 1 - delta - e^epsilon x, e^-epsilon (1 - delta - x)).
  static TradeOff approximate(double epsilon, double delta) { return {false, epsilon, delta}; }
  /// mu-GDP: distinguishing N(0, 1) from N(mu, 1).
  static TradeOff gaussian(double mu) { return {true, mu, 0.0}; }

  /// The inverse of x -> 1 - f(x): the smallest probability x of an event whose probability in the
  /// neighbour is y.
  double least_probability(double y) const;

  bool is_gaussian;
  double parameter;  // epsilon or mu
  double delta;
};

/// Whether guesses at least this good have a probability below `level` for every mechanism with
/// this trade-off. (After Mahloujifar, Melis and Chaudhuri 2025; audit_statistics.cpp proves the
/// inequality and that it can be solved greedily.)
///
/// \param level  in (0, 1).
bool excludes(const Guesses& guesses, const TradeOff& trade_off, double level);
/// The same as excludes(), for any trade-off.
/// \param least_probability  a non-decreasing function of y: a lower bound on an event's
///   probability in one neighbour if its probability in the other neighbour is y. Both
///   probabilities are means over the sides of the coin.
bool excludes(const Guesses& guesses, const std::function<double(double y)>& least_probability,
              double level);

/// \returns the largest epsilon for which excludes() excludes (epsilon, delta)-privacy; 0 if there
///   is no such epsilon.
double f_dp_epsilon(const Guesses& guesses, double delta, double level);
/// \returns the largest mu for which excludes() excludes Gaussian differential privacy; 0 if there
///   is no such mu.
double f_dp_mu(const Guesses& guesses, double level);

/// The largest excluded mu for independent runs with one coin each, with a guess for every run. A
/// fair coin's choice between two neighbours is guessed right with probability at most Phi(mu / 2),
/// so a binomial law dominates the number of right guesses.
double repeated_mu(const Guesses& guesses, double level);

/// The largest excluded epsilon of (epsilon, delta)-privacy for independent runs with one coin
/// each; runs without a clear result may be left out. Per run, P[right] <= e^epsilon P[wrong] +
/// delta; each of the two is bounded at half the level.
double repeated_epsilon(const Guesses& guesses, double delta, double level);

/// delta of mu-GDP at epsilon >= 0: Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).
/// (Dong, Roth and Su 2022, Corollary 1.)
double gaussian_delta(double mu, double epsilon);
/// \returns the smallest epsilon that mu-GDP gives at delta, rounded down, as lower bounds need; 0
///   if delta is large enough for epsilon 0; infinite for an infinite mu.
double gaussian_epsilon(double mu, double delta);
/// \returns the mu whose gaussian_epsilon() equals this epsilon.
double gaussian_mu(double epsilon, double delta);

/// The best number of guesses, the clearest first, if the two sides of a coin are as hard to
/// distinguish as N(0, 1) and N(mu, 1): the expected number of right guesses follows from the
/// normal law. The choice depends only on public numbers, so it needs no correction.
/// \param bound  a lower bound on epsilon from guesses, to be maximised.
template <class Bound>
Guesses best_guesses(std::uint64_t canaries, double mu, const Bound& bound);
/// The best number of guesses about canaries that are distinguished with a given accuracy.
/// \param accuracy  maps a share in (0, 1] to the proportion of right guesses if only this share of
///   the canaries, the clearest, is guessed.
template <class Accuracy, class Bound>
Guesses best_guesses_by(std::uint64_t canaries, const Accuracy& accuracy, const Bound& bound);

/// The accuracy of the clearest guesses between N(0, 1) and N(mu, 1), with a fair coin.
/// \param share  the share of canaries that is guessed, in (0, 1].
/// \returns the probability of a right guess.
double expected_accuracy(double mu, double share);

template <class Bound>
Guesses best_guesses(std::uint64_t canaries, double mu, const Bound& bound) {
  return best_guesses_by(
      canaries, [&](double share) { return expected_accuracy(mu, share); }, bound);
}

template <class Accuracy, class Bound>
Guesses best_guesses_by(std::uint64_t canaries, const Accuracy& accuracy, const Bound& bound) {
  Guesses best{canaries, canaries, 0};
  double highest = -1.0;
  for (double share = 1.0; share * static_cast<double>(canaries) >= 1.0; share *= 0.8) {
    const auto made = static_cast<std::uint64_t>(share * static_cast<double>(canaries));
    const double right = accuracy(static_cast<double>(made) / static_cast<double>(canaries));
    const Guesses guesses{canaries, made,
                          static_cast<std::uint64_t>(right * static_cast<double>(made))};
    const double value = bound(guesses);
    if (value < highest) break;  // past the only maximum, up to rounding to integers
    if (value == highest) continue;
    highest = value;
    best = guesses;
  }
  return best;
}

}  // namespace privgrad::core
