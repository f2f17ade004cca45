// The @KIND@ @NAME@.
#pragma once

#include "privgrad/plugin.hpp"
#include "privgrad/schedule.hpp"

namespace @NAMESPACE@ {

/// A straight line from `from` at the first step to `to` at the last.
class @CLASS@ final : public privgrad::Schedule {
 public:
  static privgrad::ComponentInfo declaration() {
    namespace param = privgrad::param;
    return {
        .name = "@NAME@",
        .summary = "A straight line over training.",
        .reference = "none: a definition",
        .params = {param::real("from", "Value at the first step.").at_least(0).example(0.2),
                   param::real("to", "Value at the last step.").at_least(0).example(0.05)},
    };
  }

  explicit @CLASS@(const privgrad::Params& params)
      : from_(params.real("from")), to_(params.real("to")) {}

  void start(const privgrad::Horizon& horizon) override { steps_ = horizon.steps; }

  double value(std::uint64_t step) const override {
    if (steps_ <= 1) return from_;
    const double way = static_cast<double>(step) / static_cast<double>(steps_ - 1);
    // Not from + way * (to - from), which misses `to` by a rounding error at the end.
    return (1.0 - way) * from_ + way * to_;
  }

  // The values are used as they are. Return true if only their ratios matter: then, as a
  // noise_multiplier, they are scaled until the privacy target is met.
  bool is_shape() const override { return false; }

 private:
  double from_;
  double to_;
  std::uint64_t steps_ = 1;
};

}  // namespace @NAMESPACE@
