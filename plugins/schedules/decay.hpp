// The base class of the decaying schedules.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "privgrad/error.hpp"
#include "privgrad/params.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/value.hpp"

/// The common part of the built-in decaying schedules: an optional parameter `initial` that makes
/// them absolute (without it they are shapes that begin at 1), and the check that every value of a
/// run is usable. Derived classes must define value() such that all values are within the range of
/// the first value, the last value and `initial`.
class Decay : public privgrad::Schedule {
 public:
  /// \throws ConfigError if a value overflows, or if a shape, a noise multiplier (there 0 means no
  ///   privacy) or a clip norm has a value of 0.
  void start(const privgrad::Horizon& horizon) final {
    if (horizon.steps == 0)
      throw privgrad::ConfigError(std::string(name_) + ": there are no steps");
    steps_ = horizon.steps;
    prepare();
    const bool positive =
        shape_ || horizon.slot == "noise_multiplier" || horizon.slot == "clip_norm";
    for (const std::uint64_t step : {std::uint64_t{0}, steps_ - 1}) {
      const double v = value(step);
      if (!std::isfinite(v)) refuse(step, v, "a finite value");
      if (positive && v < std::numeric_limits<double>::min()) {
        refuse(step, v,
               horizon.slot == "noise_multiplier"
                   ? "a positive value, because no noise is no privacy"
                   : "a positive value");
      }
    }
  }

  bool is_shape() const final { return shape_; }

 protected:
  Decay(std::string_view name, const privgrad::Params& params)
      : name_(name),
        shape_(!params.has("initial")),
        initial_(shape_ ? 1.0 : params.real("initial")) {}

  static privgrad::ParamSpec initial_param() {
    return privgrad::param::real(
               "initial",
               "Value at the beginning. Without it the schedule is a shape that begins at 1 and is "
               "scaled to the privacy budget (noise_multiplier only).")
        .above(0)
        .optional();
  }

  std::string_view name() const { return name_; }
  double initial() const { return initial_; }
  std::uint64_t steps() const { return steps_; }

 private:
  /// \throws ConfigError if the parameters do not fit the number of steps.
  virtual void prepare() {}

  [[noreturn]] void refuse(std::uint64_t step, double v, const char* expected) const {
    throw privgrad::ConfigError(std::string(name_) + ": the value at step " + std::to_string(step) +
                                " of " + std::to_string(steps_) + " is " +
                                privgrad::format_number(v) + ", expected " + expected);
  }

  std::string_view name_;
  bool shape_;
  double initial_;
  std::uint64_t steps_ = 0;
};
