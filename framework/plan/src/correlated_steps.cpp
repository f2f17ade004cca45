#include "correlated_steps.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

std::vector<CorrelatedPart> correlated_parts(const StepSetting& setting) {
  const Components& made = setting.made;
  const std::uint64_t steps = setting.facts.steps;
  return setting.manifest.aggregator.with_position([&] {
    if (made.differences != nullptr) return parts_of(*made.aggregator, *made.differences, steps);
    std::vector<CorrelatedPart> one;
    if (auto recipes = CorrelatedRecipes::of(*made.aggregator, steps))
      one.push_back({std::move(*recipes)});
    return one;
  });
}

/// Refuses optimizers of prefix sums with other releases: they would train nothing.
void refuse_other_than_sums(const StepSetting& setting, std::span<const CorrelatedPart> parts) {
  if (dynamic_cast<const OfPrefixSums*>(setting.made.optimizer.get()) == nullptr) return;
  bool sums = parts.size() == 1 && parts.front().recipes.window() == 0;
  for (std::uint64_t step = 0; sums && step < setting.facts.steps; ++step) {
    const CorrelatedRecipes& recipes = parts.front().recipes;
    sums = recipes.scale(step) == 1.0 && (step == 0 || recipes.keep(step) == 1.0);
  }
  if (sums) return;
  setting.manifest.optimizer.with_position([&] {
    throw ConfigError(setting.manifest.optimizer.name() +
                      " expects the sum of all gradients so far, which aggregator " +
                      setting.manifest.aggregator.name() +
                      " does not release as it is set; use aggregator tree without momentum");
  });
}

/// Noise of earlier steps that is named again is drawn again, exactly; and what it is subtracted from
/// must have the same coordinates.
void refuse_unfit_for_windows(const StepSetting& setting) {
  const Manifest& manifest = setting.manifest;
  const std::string who = "aggregator " + manifest.aggregator.name();
  if (manifest.arithmetic == Arithmetic::floating && !manifest.noise_off) {
    manifest.aggregator.with_position([&] {
      throw ConfigError(manifest.aggregator.name() +
                        " draws the noise of earlier steps again, which is offered in exact "
                        "arithmetic alone; leave out arithmetic: float");
    });
  }
  if (setting.made.scaling == nullptr) return;
  manifest.clipping.with_position([&] {
    throw ConfigError("scales the coordinates of gradients anew in each step, but " + who +
                      " takes back noise of earlier steps, which has other coordinates; use "
                      "aggregator gaussian");
  });
}

/// Noise of earlier steps fits sums of the same bound only, and their sum divided by one number.
void refuse_changing_sums(const StepSetting& setting, const StepPlan& steps) {
  const Manifest& manifest = setting.manifest;
  const std::string why =
      ", but aggregator " + manifest.aggregator.name() + " releases sums over many steps";
  const auto refuse_changes = [&](const std::vector<double>& values, const ComponentUse& use) {
    const bool changes =
        std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end();
    if (!changes) return;
    use.with_position(
        [&] { throw ConfigError("changes over the steps" + why + "; give one number"); });
  };
  refuse_changes(steps.values.clip_norm, manifest.clip_norm);
  refuse_changes(steps.values.batch_size, manifest.batch_size);
  if (setting.made.scaling != nullptr) {
    manifest.clipping.with_position([&] {
      throw ConfigError("scales the coordinates of gradients anew in each step" + why +
                        " of gradients that are scaled alike; use aggregator gaussian");
    });
  }
  if (setting.made.adaptive_clip_norm == nullptr) return;
  manifest.clipping.with_position([&] {
    throw ConfigError("changes the clip norm" + why +
                      " of one bound; use a clipping that keeps it");
  });
}

PublicOrder& order_of(const StepSetting& setting) {
  if (setting.made.order != nullptr) return *setting.made.order;
  throw PrivacyError(setting.manifest.sampler.name() +
                     " draws its batches to have them amplified, and no amplification is "
                     "proved for the correlated releases of aggregator " +
                     setting.manifest.aggregator.name() +
                     ", which are accounted by who takes part in which step; use sampler "
                     "shuffle, sequential or full_batch");
}

/// Gradients of one epoch are combined with differences to the next one's at the same place, which
/// belong to the same examples only if these come back in the same order.
void refuse_changing_order(const StepSetting& setting, const Participation& order) {
  const std::uint64_t epoch = setting.made.differences->epoch_steps();
  for (std::uint64_t step = epoch; step < setting.facts.steps; ++step) {
    const auto now = order.at(step);
    const auto before = order.at(step - epoch);
    if (std::equal(now.begin(), now.end(), before.begin(), before.end())) continue;
    throw ConfigError(setting.manifest.sampler.name() +
                      " draws other batches in each epoch, but aggregator " +
                      setting.manifest.aggregator.name() +
                      " adds differences between epochs to gradients of the same "
                      "examples; use {kind: shuffle, fresh: false}, sequential or full_batch");
  }
}

}  // namespace

std::shared_ptr<const CorrelatedPlan> plan_correlated_steps(const StepSetting& setting,
                                                            const StepPlan& steps,
                                                            CorrelatedPlanner& planner) {
  std::vector<CorrelatedPart> parts = correlated_parts(setting);
  refuse_other_than_sums(setting, parts);
  if (parts.empty()) return nullptr;
  if (parts.front().recipes.window() > 0) {
    refuse_unfit_for_windows(setting);
  } else {
    refuse_changing_sums(setting, steps);
  }
  return setting.manifest.sampler.with_position([&] {
    auto plan = std::make_shared<const CorrelatedPlan>(
        planner.plan(std::move(parts), order_of(setting), steps.values.batch_size));
    if (setting.made.differences != nullptr) refuse_changing_order(setting, *plan->participation);
    return plan;
  });
}

}  // namespace privgrad::core
