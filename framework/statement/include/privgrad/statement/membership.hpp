// Bounds the success of any test that guesses, from the releases of a run, whether an example was
// in its data.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/outcome.hpp"

namespace privgrad::core {

/// The false positive rate of the membership test in statements: the share of non-members that the
/// test accuses.
inline constexpr double kWronglyAccused = 0.05;

/// An upper bound on the probability that a test accuses an example in the data, if it accuses an
/// example outside the data with probability at most `wrongly`.
///
/// Proof. Let P be the distribution of the releases with the example, Q without it, and S the set
/// of outcomes on which the test accuses. By (epsilon, delta)-privacy
/// P[S] <= e^epsilon Q[S] + delta, and for the complement 1 - Q[S] <= e^epsilon (1 - P[S]) + delta,
/// so P[S] <= 1 - e^-epsilon (1 - delta - Q[S]). Both bounds grow with Q[S]. (Kairouz, Oh and
/// Viswanath 2015, Theorem 2.1, which also proves the converse.)
///
/// \param epsilon  >= 0; if infinite, returns 1.
/// \returns a probability, rounded up.
double most_found(double wrongly, double epsilon, double delta);

/// An epsilon, and a delta that is proved for it.
struct ProvedPair {
  double epsilon = 0.0, delta = 1.0;
};

/// An upper bound on the share of members that a test accuses, and the pair that proves it.
struct TestBound {
  double wrongly = 0.0;  ///< The share of non-members that the test accuses.
  double found = 1.0;
  ProvedPair by;
};

/// The smallest of the bounds that the pairs prove; all of these bounds are valid.
/// \param pairs  at least one, all of the same mechanism.
TestBound least_found(double wrongly, std::span<const ProvedPair> pairs);

/// A lower bound on the share of members that the test misses: the probability of a false negative,
/// rounded down.
double least_missed(const TestBound& bound);

/// The bound at kWronglyAccused for a run with noise: the smaller of the bounds that two pairs
/// prove. One pair is the stated (epsilon, delta). The other is another epsilon with the delta that
/// the guard proves for it: the epsilon whose line would touch the trade-off at kWronglyAccused if
/// the run were the Gaussian mechanism with the stated (epsilon, delta) (Dong, Roth and Su 2022).
/// The bound is proved for any run. With adaptive noise, only the stated pair is used, because a
/// filter guarantees no other pair.
///
/// \returns the bound, and the epsilon and delta that prove it.
MembershipTest membership_test(const Plan& plan, const Outcome& outcome);

}  // namespace privgrad::core
