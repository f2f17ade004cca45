// Steps whose aggregator sums up gradients and differences of gradients between iterates.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/trust/anchored_sums.hpp"
#include "privgrad/trust/correlated_mechanism.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// The steps of an aggregator that uses differences of gradients (UsesGradientDifferences): keeps
/// the first iterates of the current and the previous epoch, and sums up gradients and differences.
///
/// Privacy: the sums are bounded, and go to the mechanism. The bounds of differences come from the
/// plan, never from the iterates. Threads: calls must not overlap.
class GradientDifferences {
 public:
  /// \param plan  a plan with correlated releases.
  /// \param rule  the aggregator, already started. All three arguments must outlive this.
  GradientDifferences(const Plan& plan, UsesGradientDifferences& rule, Executor& executor);

  /// The next step.
  struct Step {
    std::uint64_t step = 0;             ///< The steps come in order, each once.
    std::span<const float> parameters;  ///< The iterate, which is also loaded in `program`.
    const Program& program;
    const Dataset& data;
    std::span<const std::uint32_t> batch;
    const Clip& clip;
    const std::vector<double>& class_weights;  ///< Workbench::class_weights, the same in each step.
  };

  /// Saves the anchors, which are public.
  void save(StateWriter& out) const;
  void restore(StateReader& in);

  /// The step's sums, in whole cells of the grid.
  std::vector<BoundedOnGrid> exact_sums(const Step& now);
  /// The step's sums in floating point, for `arithmetic: float` or without noise.
  std::vector<Bounded> sums(const Step& now);

  /// The gradient for the optimizer, from the releases of the step.
  /// \param noised  whether the releases have noise.
  Released combine(std::uint64_t step, std::span<const Released> parts, double clip_norm,
                   double divisor, bool noised);

 private:
  struct Prepared {
    Iterates iterates;
    DifferenceBounds bounds;
  };
  Prepared prepare(const Step& now);

  const Plan& plan_;
  UsesGradientDifferences& rule_;
  Executor& executor_;
  ComponentPtr<Backend> backend_;
  std::unique_ptr<Program> anchor_, last_anchor_;  // made for the first step
  // the anchors' parameters; empty before the first anchor
  std::vector<float> at_anchor_, at_last_anchor_;
  std::vector<double> combined_noise_;  // stddev in each step, in units of clip norm / divisor
};

}  // namespace privgrad::core
