// Estimates, by quadrature, where the answer is and which grid it needs. No proof relies on this.
#pragma once

#include <cstdint>
#include <vector>

#include "loss.hpp"

namespace pld {

/// A mechanism between two pairs, and the number of times that it is composed. `above` dominates
/// the mechanism, which dominates `below`; the two differ little.
struct Step {
  LossPairPtr above, below;
  std::uint64_t count = 0;
};

/// The question about a composition: an epsilon for a delta, or the reverse.
struct Question {
  bool wants_epsilon = true;
  double given = 0.0;  ///< The delta in (0, 1), or the epsilon >= 0.
};

/// The window and the settings with which the answer is searched: an estimate on which no proof
/// depends.
struct Plan {
  double tilt = 0.0;  ///< The exponent of the measure change that moves the mass to the answer.
  /// Orders of three Chernoff bounds: for the mass above the window, for the tilted mass so far
  /// above the window that it wraps around to the answer, and for the mass below the window.
  double high_order = 0.0, far_order = 0.0, low_order = 0.0;
  double low = 0.0, high = 0.0;           ///< The window of losses.
  double epsilon = 0.0, log_delta = 0.0;  ///< The answer, roughly.
  /// The standard deviation of the loss under the tilted measure.
  double deviation = 0.0;
};

/// Returns x ln x - (1 + x) ln(1 + x), x > 0: the ln of the largest value of e^(-x t) (1 - e^(-t)).
double log_peak(double x);

/// The cumulant generating function of the composed loss by quadrature, without error bounds.
class Scout {
 public:
  /// \param log_cut  ln of the delta that may be lost by treating the highest losses as infinite.
  ///   Otherwise rare but huge losses dominate every moment, and no tilt finds the answer.
  Scout(const std::vector<Step>& steps, double log_cut);

  Plan plan(const Question& question) const;

  /// Returns the plan for a point known to be near the curve.
  Plan plan_at(double epsilon, double log_delta) const;

  /// Returns the grid step for which the interval should be about `width` wide, in nats of epsilon,
  /// or in ln(delta).
  double grid_step(const Plan& plan, const Question& question, double width) const;

  /// Returns ln E_P e^(order * loss) of the step at a position; 0 if the sample lacks the step.
  double log_moment(std::size_t step, double order) const;

  struct Cumulants {
    double value = 0.0, mean = 0.0, variance = 0.0;
  };
  Cumulants cumulants(double order) const;

 private:
  struct Part {
    std::size_t step;
    double count;
    std::size_t begin, end;  // range in losses_
    LossPairPtr pair;
  };
  Cumulants cumulants(const Part& part, double order) const;
  double variance_of_rounding(double tilt, double h) const;
  void find_top(Plan& plan) const;
  Plan with_window(Plan plan, double tilt) const;
  double renyi_epsilon(double order, double log_delta) const;
  double renyi_log_delta(double order, double epsilon) const;

  std::vector<Part> parts_;
  std::vector<double> losses_, log_weights_;
};

}  // namespace pld
