#include "step_state.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plan/exact_plan.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/joint_release.hpp"
#include "privgrad/trust/scaled_rows.hpp"
#include "privgrad/value.hpp"
#include "saved_component.hpp"
#include "step_engine.hpp"

namespace privgrad::core {
namespace {

/// The key for the noise of a step with this scaling. If two copies of a state have different
/// scalings, for example because another processor rounds differently, they release different sums,
/// so their noise must be unrelated.
RandomKey key_of_scaled(const RandomKey& noise_key, const Scaling& scaling) {
  const auto bytes = [](std::span<const float> numbers) {
    const auto raw = std::as_bytes(numbers);
    return std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
  };
  return noise_key.derive("scaled\n" + bytes(scaling.shift) + bytes(scaling.scale));
}

/// The recipes of an aggregator with a window; null for any other aggregator.
const CorrelatedRecipes* windowed_recipes(const Plan& plan) {
  if (!plan.correlated) return nullptr;
  const CorrelatedRecipes& recipes = plan.correlated->parts.front().recipes;
  return recipes.window() > 0 ? &recipes : nullptr;
}

auto of_last_step(auto& state) {
  return std::tie(state.clip_norm, state.clipped_fraction, state.gradient_noise);
}

}  // namespace

StepState::StepState(const Plan& the_plan, const Dataset& the_data, const RandomKey& key,
                     Executor& the_executor, std::optional<Slice> slice)
    : plan(the_plan),
      manifest(*the_plan.manifest),
      data(the_data),
      executor(the_executor),
      program(manifest.backend.component->full_name()),
      clipping(manifest.clipping.component->full_name()),
      made(start_components(the_plan)),
      mechanism(*made.aggregator, key.derive("noise"), the_executor, windowed_recipes(the_plan)),
      augmentation_key(key.derive("augmentation")),
      contribution_checks(key, the_plan.steps(), program, clipping),
      clip_norm(the_plan.clip_norm.front()) {
  if (plan.correlated && windowed_recipes(plan) == nullptr) {
    correlated.emplace(plan.correlated->parts, key.derive("noise"), executor,
                       most_rows(manifest.adjacency, plan), slice);
  }
  if (made.differences != nullptr) differences.emplace(plan, *made.differences, executor);
}

void StepState::use_key_of_step(const RandomKey& key) {
  RandomKey noise_key = key.derive("noise");
  if (made.scaling != nullptr)
    noise_key = key_of_scaled(noise_key, {made.scaling->shift(), made.scaling->scale()});
  mechanism.use_key(noise_key);
  augmentation_key = key.derive("augmentation");
  if (correlated) correlated->use_key(noise_key);
}

Clip StepState::clip_of_step(std::uint64_t step) {
  if (!plan.clip_norm_adapts() || step == 0) clip_norm = plan.clip_norm[step];
  return {.rule = *made.clipping,
          .groups = plan.setting->groups,
          .clip_norm = clip_norm,
          .count_share = plan.count_share_at(step)};
}

void StepState::copy_scaling() {
  const Scaling now{made.scaling->shift(), made.scaling->scale()};
  shift.assign(now.shift.begin(), now.shift.end());
  scale.assign(now.scale.begin(), now.scale.end());
}

Released StepState::release(BoundedOnGrid sum, double divisor) {
  if (correlated) return correlated->release(std::move(sum), receipts.take(), divisor);
  return mechanism.release(std::move(sum), receipts.take(), divisor);
}

Released StepState::release(Bounded sum, double divisor) {
  if (correlated) return correlated->release(std::move(sum), receipts.take(), divisor);
  return mechanism.release(std::move(sum), receipts.take(), divisor);
}

Released StepState::release_without_noise(Bounded sum, double divisor) {
  if (correlated) return correlated->release_without_noise(std::move(sum), divisor);
  return mechanism.release_without_noise(std::move(sum), divisor);
}

std::optional<Released> StepState::gradient_of(const Clip& clip, const Released& released) {
  if (made.scaling != nullptr) {
    std::optional<Released> gradient;
    in_run_of(clipping, [&] {
      gradient.emplace(unscaled(released, {shift, scale}));
      made.scaling->learn(released);
    });
    if (second_look != nullptr) second_look->check_scaling(released, *made.public_clipping);
    return gradient;
  }
  if (!plan.releases_count()) return std::nullopt;
  JointParts parts = take_apart(released, clip.clip_norm, clip.count_share);
  adapt_clip_norm(parts.unclipped);
  return std::move(parts.gradients);
}

Released StepState::combined_gradient(std::uint64_t step, const Clip& clip,
                                      std::span<const Released> released) {
  std::optional<Released> combined;
  in_run_of(manifest.aggregator.component->full_name(), [&] {
    combined.emplace(differences->combine(step, released, clip.clip_norm, plan.batch_size[step],
                                          receipts.are_expected()));
  });
  return std::move(*combined);
}

void StepState::adapt_clip_norm(double unclipped) {
  clipped_fraction = 1.0 - unclipped;
  double next = 0.0;
  in_run_of(clipping,
            [&] { next = made.adaptive_clip_norm->next_clip_norm(clip_norm, unclipped); });
  if (!std::isfinite(next) || next <= 0.0) {
    throw PluginError(clipping + ": gave a clip norm of " + format_number(next) +
                      ", expected a finite number above 0");
  }
  if (second_look != nullptr) second_look->check_clip_norm(clip_norm, unclipped, next);
  clip_norm = std::clamp(next, kSmallestClipNorm, kLargestClipNorm);
}

void StepState::update(std::span<float> parameters, const Released& gradient, std::uint64_t step) {
  in_run_of(manifest.optimizer.component->full_name(), [&] {
    made.optimizer->step(parameters, gradient,
                         {.step = step, .learning_rate = plan.learning_rate[step]});
  });
}

void StepState::save(StateWriter& out) const {
  save_component(out, *made.aggregator);
  out.put(of_last_step(*this));
  mechanism.save(out);
  if (correlated) correlated->save(out);
  if (differences) differences->save(out);
  if (made.scaling != nullptr) save_component(out, *made.public_clipping);
  contribution_checks.save(out);
}

void StepState::restore(StateReader& in) {
  restore_component(in, *made.aggregator);
  in.get(of_last_step(*this));
  mechanism.restore(in);
  if (correlated) correlated->restore(in);
  if (differences) differences->restore(in);
  if (made.scaling != nullptr) {
    restore_component(in, *made.public_clipping);
    if (second_look != nullptr) second_look->restore_scaling(*made.public_clipping);
  }
  contribution_checks.restore(in);
}

void StepEngine::save_optimizer(StateWriter& out) const {
  save_component(out, *state_.made.optimizer);
}

void StepEngine::restore_optimizer(StateReader& in) {
  restore_component(in, *state_.made.optimizer);
}

}  // namespace privgrad::core
