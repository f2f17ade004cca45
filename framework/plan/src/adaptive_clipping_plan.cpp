#include "adaptive_clipping_plan.hpp"

#include <algorithm>
#include <cstddef>

#include "privgrad/error.hpp"
#include "privgrad/trust/joint_release.hpp"

namespace privgrad::core {
namespace {

void check_adaptive_clipping(const Manifest& manifest, const StepSchedules& schedules,
                             const Components& made) {
  if (made.adaptive_clip_norm == nullptr) return;
  manifest.clip_norm.with_position([&] {
    const std::vector<double>& values = schedules.clip_norm.at;
    const bool is_one_number =
        !schedules.clip_norm.is_shape &&
        std::ranges::all_of(values, [&](double value) { return value == values.front(); });
    if (is_one_number) return;
    throw ConfigError("changes over the steps, but " + manifest.clipping.name() +
                      " decides about the clip norm after the first step; give one number");
  });
  if (!schedules.noise_is_std) return;
  manifest.noise_std.with_position([&] {
    throw ConfigError("fixes the noise itself, but under " + manifest.clipping.name() +
                      " clipping the noise follows the clip norm; use noise_multiplier");
  });
}

void check_coordinate_scaling(const Manifest& manifest, const StepSchedules& schedules,
                              const Components& made) {
  if (made.scaling == nullptr) return;
  const std::string who = manifest.clipping.component->full_name();
  if (made.adaptive_clip_norm != nullptr)
    throw PluginError(who + ": broke its contract: it scales coordinates, and releases a count");
  if (!schedules.noise_is_std) return;
  manifest.noise_std.with_position([&] {
    throw ConfigError("fixes the noise in units of gradients, but under " +
                      manifest.clipping.name() +
                      " clipping it is added to gradients whose coordinates are scaled; use "
                      "noise_multiplier");
  });
}

}  // namespace

void check_clipping(const Manifest& manifest, const StepSchedules& schedules,
                    const Components& made) {
  check_adaptive_clipping(manifest, schedules, made);
  check_coordinate_scaling(manifest, schedules, made);
}

CountRelease plan_count(const ComponentUse& clipping, const StepPlan& steps,
                        const Components& made) {
  CountRelease count;
  if (made.adaptive_clip_norm == nullptr) return count;
  clipping.with_position([&] {
    for (std::size_t step = 0; step < steps.batch_size.size(); ++step) {
      const double multiplier = steps.values.noise_multiplier[step];
      // Without noise the count is exact, and its share of the vector does not matter.
      const bool noised = multiplier > 0.0;
      count.noise.push_back(
          noised ? made.adaptive_clip_norm->count_noise(steps.batch_size[step], multiplier) : 0.0);
      count.share.push_back(noised ? count_share(multiplier, count.noise.back()) : 0.5);
    }
  });
  return count;
}

}  // namespace privgrad::core
