// How well anybody can tell from what a run released whether an example was among its data.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/outcome.hpp"

namespace privgrad::core {

/// The share of those who were not in the data that the test of a statement accuses all the same.
inline constexpr double kWronglyAccused = 0.05;

/// The most that a test finds: an upper bound on the probability that it accuses an example that was
/// in the data, if it accuses one that was not with probability `wrongly` at most.
///
/// Proof. Let P be what is seen with the example, Q without it, S what the test accuses on. By
/// (epsilon, delta)-privacy P[S] <= e^epsilon Q[S] + delta, and of the complement 1 - Q[S] <=
/// e^epsilon (1 - P[S]) + delta, so P[S] <= 1 - e^-epsilon (1 - delta - Q[S]); both grow with Q[S].
/// (Kairouz, Oh and Viswanath 2015, Theorem 2.1, where the converse is proved, too.)
///
/// \param epsilon  >= 0; infinite: 1 is returned.
/// \returns a probability, rounded up.
double most_found(double wrongly, double epsilon, double delta);

/// An epsilon, and a delta that is proved for it.
struct ProvedPair {
  double epsilon = 0.0, delta = 1.0;
};

/// What a test finds at most, and the pair that says so.
struct TestBound {
  double wrongly = 0.0;  ///< The share of those who were not in the data that it accuses.
  double found = 1.0;
  ProvedPair by;
};

/// The least of what the pairs prove, all of which hold at once.
/// \param pairs  of one mechanism, at least one.
TestBound least_found(double wrongly, std::span<const ProvedPair> pairs);

/// The share of those who were in the data that the test misses at least: a false negative's
/// probability, rounded down.
double least_missed(const TestBound& bound);

/// The same of a run with noise, for kWronglyAccused, in the member `membership_test` of statements:
/// the smaller of what two points of its trade-off prove, (epsilon, delta) as stated, and the delta
/// that the guard proves for a smaller epsilon. The latter is where the line through the point
/// would touch the trade-off at kWronglyAccused if the run were the Gaussian mechanism with the
/// stated (epsilon, delta) (Dong, Roth and Su 2022); whatever the run is, the bound is a proof. With
/// noise that adapts a filter keeps the stated point, and no other.
///
/// \returns {"wrongly_accused", "found_at_most", "epsilon", "delta"}, the point last.
nlohmann::json membership_test(const Plan& plan, const Outcome& outcome);

}  // namespace privgrad::core
