// The privacy cost of training several candidates and releasing only the best one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The epsilon of choosing, or the reason why none is proved.
struct ChoiceCost {
  std::optional<PrivacyAnswer> epsilon;  ///< Nothing: not proved; see `why`.
  std::string why;
};

/// Training every one of some candidates with fresh noise and releasing the best: the composition
/// of all of them, because the choice may depend on each. Choosing by any rule from the released
/// models is post-processing.
///
/// \param candidates  plans under one adjacency and accountant (the first one's is used).
/// \param repeats     how often each is trained.
ChoiceCost fixed_grid_cost(const std::vector<const Plan*>& candidates, std::uint64_t repeats,
                           double delta);

/// The law of the number of runs, where it is drawn at random.
enum class RunCount {
  geometric = 1,  ///< 1, 2, 3, ...: Liu and Talwar 2019; truncated negative binomial, eta = 1.
  poisson,        ///< 0, 1, 2, ...: Papernot and Steinke 2022. With no run nothing is released.
};

/// The cost of a random number K of runs, each of a candidate drawn uniformly with fresh noise. The
/// run with the best score is released; K, the other runs and their scores are not. Costs far less
/// than the composition of K runs (Liu and Talwar 2019; Papernot and Steinke 2022).
///
/// The bound is by the privacy profile delta(e) of one run, as in Koskela, Redberg and Wang 2024.
/// For a run with output y (its score included, ties broken by a random number that is part of y),
/// with density q and distribution function F on one data set and q', F' on a neighbour, let f be
/// the generating function of K. The best of K runs has the density q(y) f'(F(y)). If f'(F(y)) <=
/// C f'(F'(y)) for all y, then for every e
///
///     integral of [q f'(F) - e^e q' f'(F')]+  <=  integral of f'(F) [q - (e^e / C) q']+
///                                             <=  f'(1) delta(e - ln C),       f'(1) = E K,
///
/// so that the best of K is (epsilon(delta / E K) + ln C, delta)-private. And C is
/// - geometric, P(K = k) = g (1-g)^(k-1): f'(x) = f'(1) (g / (1 - (1-g) x))^2; with G = 1 - F, any
///   e2 >= 0 and d2 = delta(e2), G' <= e^e2 G + d2 gives
///   (g + (1-g) G') / (g + (1-g) G) <= e^e2 + (1/g - 1) d2, so C is the square of that;
/// - Poisson of mean m: f'(x) = m e^(m (x-1)), and F - F' <= delta(0) gives C = e^(m delta(0)).
///
/// One run draws its candidate first: its profile is a mixture of theirs and, the divergence being
/// jointly convex, at most their maximum.
///
/// \param expected_runs  E K >= 1.
/// \returns an upper bound.
ChoiceCost random_number_cost(const std::vector<const Plan*>& candidates, RunCount count,
                              double expected_runs, double delta);

/// The same for one run given by two functions, both upper bounds.
double random_number_epsilon(const std::function<double(double delta)>& epsilon_of,
                             const std::function<double(double epsilon)>& delta_of, RunCount count,
                             double expected_runs, double delta);

}  // namespace privgrad::core
