// The schedules of noise, clip norm, batch size and learning rate, as values for every step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "owner_plan.hpp"
#include "privgrad/schedule.hpp"

namespace privgrad::core {

/// One hyper-parameter over time, according to the manifest's schedule.
struct ScheduleValues {
  std::vector<double> at;
  bool is_shape = false;       ///< Whether its scale is open, so that calibration must find it.
  NoiseInfluence influence{};  ///< Empty if the schedule has no influence.
};

/// \throws ManifestError for infinite, NaN or negative values, with `above_zero` for 0, and for
///   adaptive noise in a slot other than noise_multiplier.
ScheduleValues schedule_values(const ComponentUse& use, const std::string& slot,
                               std::uint64_t steps, bool above_zero);

struct StepValues {
  std::vector<double> noise_multiplier, clip_norm;
  std::vector<double> batch_size;  ///< Passed to the sampler; empty: the sampler decides.
};

/// The manifest's schedules that affect the privacy cost. At most one has an open scale, because
/// one target determines one number.
struct StepSchedules {
  ScheduleValues noise, clip_norm, batch_size;
  /// Whether `noise` is schedules.noise_std; at() divides by clip_norm.
  bool noise_is_std = false;
  bool noise_is_rescaled = false;  ///< Whether privacy.calibrate: all opened the scale of `noise`.
  std::uint64_t dataset_size = 0;  ///< The upper limit of batch sizes.

  /// The manifest's schedule with an open scale; null if no scale is open.
  const ComponentUse* open(const Manifest& manifest) const;
  /// The influence behind the noise multipliers; empty with schedules.noise_std, which gives none.
  std::vector<double> influence() const;
  /// The values with the open scale set to `scale`. A larger scale costs less.
  StepValues at(double scale) const;
};

/// \param noise_adapts  whether the noise values are only the initial ones, so that
///   `privacy.calibrate: all` must not scale them.
/// \throws ManifestError for a value that is not allowed, and for open scales that one target does
///   not determine.
StepSchedules plan_schedules(const Manifest& manifest, const OwnerSetting& owner,
                             std::uint64_t steps, bool noise_adapts);

/// The manifest's learning rates.
/// \throws ManifestError for an open scale: a learning rate costs nothing, so no target determines
///   it.
std::vector<double> learning_rates(const ComponentUse& schedule, std::uint64_t steps);

}  // namespace privgrad::core
