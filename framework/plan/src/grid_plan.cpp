#include "grid_plan.hpp"

#include <string>

#include "privgrad/error.hpp"

namespace privgrad::core {

std::uint64_t plan_grid(const StepSetting& setting) {
  const Manifest& manifest = setting.manifest;
  const std::string& name = manifest.aggregator.name();
  const std::uint64_t levels = manifest.aggregator.with_position([&] {
    const Aggregator& aggregator = *setting.made.aggregator;
    const std::uint64_t first = aggregator.recipe(0).grid_levels;
    for (std::uint64_t step = 1; step < setting.facts.steps; ++step) {
      if (aggregator.recipe(step).grid_levels == first) continue;
      throw PluginError(name + " changes its grid at step " + std::to_string(step));
    }
    return first;
  });
  if (levels != 0 && manifest.arithmetic == Arithmetic::floating) {
    throw error_at(manifest, "aggregator.arithmetic",
                   "is float, but the sums and the noise of " + name +
                       " are whole numbers always; leave it out, or use exact");
  }
  if (levels != 0 && setting.made.adaptive_clip_norm != nullptr) {
    manifest.clipping.with_position([&] {
      throw ConfigError("releases a count beside the gradients, which aggregator " + name +
                        " has no place for; use another clipping, or aggregator gaussian");
    });
  }
  return levels;
}

}  // namespace privgrad::core
