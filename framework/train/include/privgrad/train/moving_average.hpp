// The exponential moving average of the parameters, which a run may keep as its final model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// The exponential moving average of the parameters over the steps of a run, or the rounds of a
/// federated run:
///
///     a_0 = w_0,   a_t = d_t a_{t-1} + (1 - d_t) w_t,   d_t = min(decay, (1 + t) / (10 + t)),
///
/// so that the first parameters are soon forgotten (as in De et al. 2022, section 3.4). Computed in
/// double, coordinate by coordinate: the same bits on any number of threads and any processor.
///
/// Privacy: post-processing of the run's releases; costs nothing.
/// Threads: calls never overlap.
class MovingAverage {
 public:
  /// \param decay  in (0, 1).
  /// \param first  the parameters before the first step.
  MovingAverage(double decay, std::span<const float> first)
      : decay_(decay), values_(first.begin(), first.end()) {}

  /// \param parameters  the parameters after the next step, as many as before.
  void add(std::span<const float> parameters);

  std::vector<float> parameters() const;

  void save(StateWriter& out) const;
  /// \throws IoError if the saved average belongs to another model.
  void restore(StateReader& in);

 private:
  double decay_;
  std::uint64_t steps_ = 0;
  std::vector<double> values_;
};

}  // namespace privgrad::core
