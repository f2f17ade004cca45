// The schedules of noise, clip norm, batch size and learning rate, as values for every step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "owner_plan.hpp"
#include "privgrad/schedule.hpp"

namespace privgrad::core {

/// One hyper-parameter over time, as the manifest's schedule gives it.
struct ScheduleValues {
  std::vector<double> at;
  bool is_shape = false;       ///< Its scale is open: to be found by a target.
  NoiseInfluence influence{};  ///< Without values: it was made from none.
};

/// \throws ManifestError for values that are not finite, negative, or 0 where that is not allowed.
ScheduleValues schedule_values(const ComponentUse& use, const std::string& slot,
                               std::uint64_t steps, bool above_zero);

/// The values that steps are made with; one per step.
struct StepValues {
  std::vector<double> noise_multiplier, clip_norm;
  std::vector<double> batch_size;  ///< Given to the sampler; empty: it decides itself.
};

/// The schedules that cost privacy, as the manifest gives them. At most one is a shape: one number
/// is found by one target.
struct StepSchedules {
  ScheduleValues noise, clip_norm, batch_size;
  bool noise_is_std = false;       ///< `noise` is schedules.noise_std; at() divides by clip_norm.
  bool noise_is_rescaled = false;  ///< `noise` became a shape by privacy.calibrate: all.
  std::uint64_t dataset_size = 0;  ///< No batch is larger.

  /// The schedule in the manifest whose scale is open; null: none is.
  const ComponentUse* open(const Manifest& manifest) const;
  /// The values with that scale filled in. A larger scale costs less.
  StepValues at(double scale) const;
};

/// \param noise_adapts  true: the noise only begins with these values, and privacy.calibrate: all
///   has none to scale.
/// \throws ManifestError for a value that is not allowed, and for shapes without a target.
StepSchedules plan_schedules(const Manifest& manifest, const OwnerSetting& owner,
                             std::uint64_t steps, bool noise_adapts);

/// The manifest's learning rates, which are never a shape: a learning rate costs nothing.
std::vector<double> learning_rates(const Manifest& manifest, std::uint64_t steps);

}  // namespace privgrad::core
