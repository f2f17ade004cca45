// A lower bound on the cost of releases, to catch accountants that claim less.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/event.hpp"
#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// A lower bound on the cost of a sequence of releases, from closed forms. It takes almost no time
/// to compute, and an accountant with a smaller answer is wrong.
///
/// A sequence costs at least as much as any part of it, because the rest can be ignored. The parts
/// are
/// - all releases of Gaussian noise without sampling: one Gaussian with mu^2 = sum (s / sigma)^2,
///   whose delta is Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) (Balle, Wang 2018, Theorem 8);
/// - a `zcdp` event, which counts as one more Gaussian with mu^2 = 2 rho, because that Gaussian is
///   a rho-zCDP mechanism (Bun and Steinke 2016, Proposition 1.6);
/// - one release of Laplace noise: (1 - e^((eps - s / scale) / 2))_+;
/// - one release on a sampled batch: the example is in it with probability q, in one data set with
///   a contribution of norm 1 and in the other with none. These may be neighbours under every
///   adjacency; P = (1-q) Q + q P', and so sup_A P(A) - e^eps Q(A) =
///   q (sup_A P'(A) - (1 + (e^eps - 1) / q) Q(A)), the release's own divergence at the larger
///   epsilon ln(1 + (e^eps - 1) / q), for a sensitivity of 1;
/// - the first step of an epoch of random allocation, whose batch contains the example with
///   probability 1 / steps: the same with q = 1 / steps.
/// Nothing is claimed about discrete Gaussians.
///
/// Rounding: downwards, so that a correct accountant is never contradicted.
class LeastCost {
 public:
  explicit LeastCost(Adjacency adjacency);

  /// Adds `count` releases of the event.
  void compose(const Event& event, std::uint64_t count);

  /// \param epsilon  >= 0, may be infinite.
  /// \returns a lower bound in [0, 1] on the true delta.
  double delta(double epsilon) const;

 private:
  /// One part: a release to which an example contributes with probability q.
  struct Part {
    double q = 1.0;
    double square = 0.0;  // mu^2 of the Gaussians
    double laplace = 0.0;
    bool bare = false;  // whether some release has no noise

    double delta(double epsilon) const;
    bool is_at_least(const Part& other) const;
  };
  static void add(const Event& event, double count, double sensitivity, double adjacent,
                  Part& part);
  void keep(const Part& part);

  double sensitivity_;
  Part unsampled_;
  std::vector<Part> sampled_;  // no element dominates another
};

/// checked_epsilon() and checked_delta() return the answer, unless it is below the least cost of
/// the releases. Estimates are not checked, because they claim nothing.
/// \param name  the accountant's name, for the error.
/// \throws PluginError if the answer is below that cost.
PrivacyAnswer checked_epsilon(PrivacyAnswer answer, double delta, const LeastCost& least,
                              std::string_view name);
PrivacyAnswer checked_delta(PrivacyAnswer answer, double epsilon, const LeastCost& least,
                            std::string_view name);

}  // namespace privgrad::core
