// The base class of the adaptive noise schedules.
#pragma once

#include <algorithm>
#include <cstdint>

#include "privgrad/params.hpp"
#include "privgrad/schedule.hpp"

/// The common part of the built-in adaptive schedules: the number of steps between measurements,
/// and `initial`, the noise at the first step. Without `initial`, the noise is first a constant
/// shape, whose scale the core finds.
class Adaptive : public privgrad::Schedule {
 public:
  void start(const privgrad::Horizon&) final {}
  double value(std::uint64_t) const final { return initial_; }
  bool is_shape() const final { return shape_; }

 protected:
  explicit Adaptive(const privgrad::Params& params)
      : shape_(!params.has("initial")),
        initial_(shape_ ? 1.0 : params.real("initial")),
        every_(static_cast<std::uint64_t>(params.integer("every"))) {}

  static privgrad::ParamSpec initial_param() {
    return privgrad::param::
        real("initial",
             "Noise multiplier at the beginning. Without it the one at which the budget lasts for "
             "all steps if the noise is never lowered, so that a run which lowers it ends early.")
            .above(0)
            .optional();
  }

  std::uint64_t every() const { return every_; }

  /// \returns the noise times the factor, but not below 1e-9. The budget is spent long before the
  ///   noise is that small.
  static double lowered(double noise, double factor) {
    return std::min(noise, std::max(noise * factor, 1e-9));
  }

 private:
  bool shape_;
  double initial_;
  std::uint64_t every_;
};
