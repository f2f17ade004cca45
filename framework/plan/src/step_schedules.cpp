#include "step_schedules.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/influence.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

[[noreturn]] void refuse_shape(const ComponentUse& use, const std::string& why) {
  use.with_position([&] {
    throw ConfigError("gives a shape without a scale" + why + "; give it its initial value");
  });
  throw ConfigError("unreachable");
}

std::vector<double> scaled(const ScheduleValues& values, double scale) {
  std::vector<double> result = values.at;
  if (values.is_shape) {
    for (double& value : result) value *= scale;
  }
  return result;
}

void refuse_shapes_without_meaning(const Manifest& manifest, const StepSchedules& schedules) {
  if (schedules.clip_norm.is_shape && !schedules.noise_is_std) {
    refuse_shape(manifest.clip_norm,
                 ", but noise_multiplier is relative to it, so that no scale costs more than "
                 "another; fix the noise itself by schedules.noise_std");
  }
  if (schedules.clip_norm.is_shape && schedules.batch_size.is_shape)
    refuse_shape(manifest.batch_size, ", and so does schedules.clip_norm");
  if (schedules.noise.is_shape && schedules.clip_norm.is_shape)
    refuse_shape(manifest.clip_norm, ", and so does schedules.noise_std");
  if (schedules.noise.is_shape && schedules.batch_size.is_shape) {
    refuse_shape(manifest.batch_size,
                 ", and so does " + (schedules.noise_is_std ? manifest.noise_std.where
                                                            : manifest.noise_multiplier.where));
  }
  if (!manifest.noise_off) return;
  if (schedules.clip_norm.is_shape)
    refuse_shape(manifest.clip_norm, ", and without noise there is no target for it");
  if (schedules.batch_size.is_shape)
    refuse_shape(manifest.batch_size, ", and without noise there is no target for it");
}

}  // namespace

ScheduleValues schedule_values(const ComponentUse& use, const std::string& slot,
                               std::uint64_t steps, bool above_zero) {
  const auto schedule = use.make<Schedule>();
  return use.with_position([&] {
    if (slot != "noise_multiplier" && schedule->measurement()) {
      throw ConfigError("is " + use.name() +
                        ", which adapts the noise; its place is schedules.noise_multiplier");
    }
    schedule->start({.steps = steps, .slot = slot});
    ScheduleValues values;
    values.is_shape = schedule->is_shape();
    values.influence = schedule->influence().value_or(NoiseInfluence{});
    values.at.reserve(steps);
    for (std::uint64_t step = 0; step < steps; ++step) {
      const double value = schedule->value(step);
      if (!std::isfinite(value) || value < 0.0 || (above_zero && value == 0.0)) {
        throw ConfigError("is " + format_number(value) + " at step " + std::to_string(step) +
                          ", allowed is " + (above_zero ? "(0, inf)" : "[0, inf)"));
      }
      values.at.push_back(value);
    }
    return values;
  });
}

const ComponentUse* StepSchedules::open(const Manifest& manifest) const {
  if (noise.is_shape) return noise_is_std ? &manifest.noise_std : &manifest.noise_multiplier;
  if (clip_norm.is_shape) return &manifest.clip_norm;
  if (batch_size.is_shape) return &manifest.batch_size;
  return nullptr;
}

StepValues StepSchedules::at(double scale) const {
  StepValues values{.noise_multiplier = scaled(noise, scale),
                    .clip_norm = scaled(clip_norm, 1.0 / scale),
                    .batch_size = batch_size.at};
  if (noise_is_std) {
    for (std::size_t t = 0; t < values.clip_norm.size(); ++t)
      values.noise_multiplier[t] /= values.clip_norm[t];
  }
  if (batch_size.is_shape) {
    // At a scale of 1 the largest batch is the whole data set, which no batch can exceed.
    const double size = static_cast<double>(dataset_size);
    const double most = *std::ranges::max_element(batch_size.at);
    for (double& value : values.batch_size) value = std::min(size, value / most * size / scale);
  }
  return values;
}

std::vector<double> StepSchedules::influence() const {
  return noise_is_std ? std::vector<double>{} : noise.influence.values;
}

StepSchedules plan_schedules(const Manifest& manifest, const OwnerSetting& owner,
                             std::uint64_t steps, bool noise_adapts) {
  const auto values = [&](const ComponentUse& use, const char* slot) {
    return use.is_given() ? schedule_values(use, slot, steps, /*above_zero=*/true)
                          : ScheduleValues{};
  };
  StepSchedules schedules;
  schedules.dataset_size = owner.dataset_size;
  schedules.noise_is_std = manifest.noise_std.is_given();
  schedules.noise = schedules.noise_is_std ? values(manifest.noise_std, "noise_std")
                                           : values(manifest.noise_multiplier, "noise_multiplier");
  schedules.clip_norm = values(manifest.clip_norm, "clip_norm");
  if (owner.clip_norm) schedules.clip_norm = {std::vector(steps, *owner.clip_norm), false};
  schedules.batch_size = values(manifest.batch_size, "batch_size");
  // If another schedule has an open scale, calibrating that scale already meets the target.
  schedules.noise_is_rescaled = manifest.scale_all_noise && !manifest.noise_off && !noise_adapts &&
                                schedules.open(manifest) == nullptr;
  if (schedules.noise_is_rescaled) schedules.noise.is_shape = true;
  refuse_shapes_without_meaning(manifest, schedules);
  return schedules;
}

std::vector<double> learning_rates(const ComponentUse& schedule, std::uint64_t steps) {
  ScheduleValues rates = schedule_values(schedule, "learning_rate", steps, /*above_zero=*/false);
  if (rates.is_shape)
    refuse_shape(schedule, ", which only what costs privacy can be calibrated for");
  return std::move(rates.at);
}

}  // namespace privgrad::core
