// Simulates how much noise is left when releases are averaged over windows of steps, and added up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::api {

/// The noise that remains when releases are averaged over windows of steps, or added up. This noise is
/// what moves a model: noise that changes from step to step averages out, noise that is carried along
/// does not. Two mechanisms whose single releases are equally noisy may differ here by any factor.
struct AveragedNoise {
  /// For each length of a window the standard deviation of the mean over one, root mean square over
  /// all windows, in units of the released gradient.
  std::vector<double> windows;
  /// Standard deviation of the iterates, root mean square over all steps: of the releases up to a step,
  /// added up with the learning rates over their mean.
  double iterates = 0.0;
};

/// The simulation takes many copies of one coordinate through the recipes that the run would
/// follow, with all sums zero. The seed is public and fixed, so that every call gives the same
/// answer.
///
/// \param plan      from a manifest with noise; that of gradients is summed up with `momentum`.
/// \param momentum  in [0, 1]; 1: prefix sums. For releases of gradients alone: others have their
///                  own.
/// \param windows   lengths in steps, each in [1, steps of the plan]. Windows do not overlap; steps
///                  after the last whole one are left out.
/// \returns the relative standard error is at most 1.6 % up to 24 000 steps and 4.5 % beyond, and less
///   where there are many windows.
AveragedNoise averaged_noise(const core::Plan& plan, double momentum,
                             std::span<const std::uint64_t> windows);

}  // namespace privgrad::api
