#include "study_arms.hpp"

namespace privgrad::report {

Series curve(const Arm& arm, std::optional<double> Measurement::*value) {
  return curve(arm, value, [](const Measurement& one) { return std::optional(one.step); });
}

}  // namespace privgrad::report
