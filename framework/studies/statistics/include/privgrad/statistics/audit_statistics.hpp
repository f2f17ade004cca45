// Lower bounds on epsilon from an audit's right guesses: the statistics alone, without any run.
#pragma once

#include <cstdint>
#include <functional>

/// Lower bounds on epsilon from guesses about who was in the data. Pure functions; none sees a run.
///
/// The experiment: m fair coins, independent, each of which decides between two neighbouring data
/// sets (a canary is there or not). From the releases, r of the coins are guessed, and v guesses
/// are right. Under a guarantee, guesses cannot be right too often; a lower bound on epsilon at
/// confidence 1 - a is the largest epsilon at which P[v or more are right] is below a.
///
/// Why a bound may be looked for among all epsilons: each rejects from some v on, a whole number;
/// an epsilon below the true one is never in the way, and of those from the true one on the one
/// that rejects first does so wrongly with probability at most a. So do all of them together.
namespace privgrad::core {

/// The guesses of an audit.
struct Guesses {
  std::uint64_t canaries = 0;  ///< m: coins; or the runs, if repeated.
  std::uint64_t made = 0;      ///< r <= m, a number that was fixed before the coins were thrown.
  std::uint64_t correct = 0;   ///< v <= r.
};

/// P[Binomial(n, p) >= k].
/// \param p  in [0, 1].
double binomial_tail(std::uint64_t n, double p, std::uint64_t k);

/// A lower confidence limit (Clopper and Pearson 1934): above the success probability with
/// probability at most `level`.
/// \returns the p with P[Binomial(n, p) >= k] = level; 0 for k = 0.
double proportion_above(std::uint64_t successes, std::uint64_t trials, double level);
/// The upper limit likewise; 1 for k = n.
double proportion_below(std::uint64_t successes, std::uint64_t trials, double level);

/// Under (epsilon, delta)-privacy, the probability of guesses as good as these is at most this.
/// (Steinke, Nasr and Jagielski 2023, Theorem 5.2 with guesses in {-1, 0, 1}.)
///
/// With W = Binomial(r, e^epsilon / (1 + e^epsilon)): P[W >= v] + 2 m delta max over i in [1, v] of
/// P[v > W >= v - i] / i.
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
  /// mu-GDP: telling N(0, 1) from N(mu, 1).
  static TradeOff gaussian(double mu) { return {true, mu, 0.0}; }

  /// The inverse of x -> 1 - f(x): the least probability x of an event whose probability in the
  /// neighbour is y.
  double least_probability(double y) const;

  bool is_gaussian;
  double parameter;  // epsilon or mu
  double delta;
};

/// Whether guesses as good as these have a probability below `level` for every mechanism with this
/// trade-off. (After Mahloujifar, Melis and Chaudhuri 2025; the inequality and why it is solved
/// greedily are proved in the source.)
///
/// \param level  in (0, 1).
bool excludes(const Guesses& guesses, const TradeOff& trade_off, double level);
/// The same for any trade-off.
/// \param least_probability  at y: at most the probability, in one neighbour, of an event whose
///   probability in the other is y, where both are means over the sides of the coin; does not fall.
bool excludes(const Guesses& guesses, const std::function<double(double y)>& least_probability,
              double level);

/// \returns the largest epsilon that is excluded so for (epsilon, delta)-privacy; 0: none is.
double f_dp_epsilon(const Guesses& guesses, double delta, double level);
/// \returns the largest mu that is excluded so for Gaussian differential privacy; 0: none is.
double f_dp_mu(const Guesses& guesses, double level);

/// The same for independent runs with one coin each, all of which are guessed. Telling two
/// neighbours apart with a fair coin is right with probability Phi(mu / 2) at most, so the number
/// of right guesses is at most binomial.
double repeated_mu(const Guesses& guesses, double level);

/// The same for (epsilon, delta)-privacy, where runs that look undecided may be left out. Per run,
/// P[right] <= e^epsilon P[wrong] + delta; both are bounded at half the level.
double repeated_epsilon(const Guesses& guesses, double delta, double level);

/// delta of mu-GDP at epsilon >= 0: Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).
/// (Dong, Roth and Su 2022, Corollary 1.)
double gaussian_delta(double mu, double epsilon);
/// \returns the smallest epsilon of mu-GDP at delta, rounded down, for use in lower bounds. 0 where
///   delta is large enough for epsilon 0; infinite for an infinite mu.
double gaussian_epsilon(double mu, double delta);
/// \returns the mu whose gaussian_epsilon() is this one.
double gaussian_mu(double epsilon, double delta);

/// The best number of m canaries to guess, if they are told apart as N(0, 1) from N(mu, 1), the
/// clearest first: the expected number of right guesses follows from the normal law. The choice
/// follows from public numbers alone, so that no correction is due for it.
/// \param bound  a lower bound on epsilon from guesses, to be maximised.
template <class Bound>
Guesses best_guesses(std::uint64_t canaries, double mu, const Bound& bound);
/// The same for canaries that are told apart otherwise.
/// \param accuracy  for a share in (0, 1] of the guesses, the clearest: the share of right ones.
template <class Accuracy, class Bound>
Guesses best_guesses_by(std::uint64_t canaries, const Accuracy& accuracy, const Bound& bound);

/// The accuracy of guesses between N(0, 1) and N(mu, 1), with a fair coin, the clearest first.
/// \param share  how many are guessed, in (0, 1].
/// \returns the probability of being right.
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
    if (value < highest) break;  // it rises and falls once, up to whole numbers
    if (value == highest) continue;
    highest = value;
    best = guesses;
  }
  return best;
}

}  // namespace privgrad::core
