// A lower bound on what releases cost, to catch accountants that claim less.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/event.hpp"
#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// A lower bound on what a sequence of releases spends, by closed forms: it takes next to no time,
/// and no accountant that answers less can be right.
///
/// A sequence spends at least what a part of it does, the rest being thrown away. The parts are
/// - all releases of Gaussian noise without sampling: one Gaussian with mu^2 = sum (s / sigma)^2, whose
///   delta is Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) (Balle and Wang 2018, Theorem 8);
/// - a `zcdp` event joins them with mu^2 = 2 rho: what holds for anything that is rho-zCDP holds for
///   that Gaussian (Bun and Steinke 2016, Proposition 1.6);
/// - one release of Laplace noise: (1 - e^((eps - s / scale) / 2))_+;
/// - one release on a sampled batch: the example is in it with probability q, in one data set with a
///   contribution of norm 1 and in the other with none. Under every adjacency these may be
///   neighbours, whatever else they allow; P = (1-q) Q + q P', and so
///   sup_A P(A) - e^eps Q(A) = q (sup_A P'(A) - (1 + (e^eps - 1) / q) Q(A)), the release's own
///   divergence at the larger epsilon ln(1 + (e^eps - 1) / q), for a sensitivity of 1;
/// - of an epoch of random allocation its first step alone, whose batch the example is in with
///   probability 1 / steps: the same with q = 1 / steps.
/// Nothing is claimed about discrete Gaussians.
///
/// Rounding: downwards, so that a right accountant is never contradicted.
class LeastCost {
 public:
  explicit LeastCost(Adjacency adjacency);

  /// Adds `count` releases of the event.
  void compose(const Event& event, std::uint64_t count);

  /// \param epsilon  >= 0, may be infinite.
  /// \returns a delta in [0, 1] that the true one is not below.
  double delta(double epsilon) const;

 private:
  /// A part: what happens to an example that is there with probability q.
  struct Part {
    double q = 1.0;
    double square = 0.0;  // mu^2 of the Gaussians
    double laplace = 0.0;
    bool bare = false;  // something is without noise

    double delta(double epsilon) const;
    bool is_at_least(const Part& other) const;
  };
  static void add(const Event& event, double count, double sensitivity, double adjacent,
                  Part& part);
  void keep(const Part& part);

  double sensitivity_;
  Part unsampled_;
  std::vector<Part> sampled_;  // none of them is at least another
};

/// The answer, if it is not below what the releases spend at least; estimates claim nothing.
/// \param name  the accountant's name, for the error.
/// \throws PluginError if it is.
PrivacyAnswer checked_epsilon(PrivacyAnswer answer, double delta, const LeastCost& least,
                              std::string_view name);
PrivacyAnswer checked_delta(PrivacyAnswer answer, double epsilon, const LeastCost& least,
                            std::string_view name);

}  // namespace privgrad::core
