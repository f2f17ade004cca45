#include "step_plan.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "correlated_steps.hpp"
#include "noise_allocation.hpp"
#include "privgrad/error.hpp"
#include "privgrad/influence.hpp"
#include "privgrad/trust/mechanism.hpp"

namespace privgrad::core {
namespace {

/// Computes the charges of steps with given values, by starting the components for them.
class StepCharger {
 public:
  explicit StepCharger(const StepSetting& setting)
      : setting_(setting), correlated_(make_random_source(setting.key.derive("sampler"))) {}

  StepPlan charged(StepValues values) {
    StepPlan plan = started(std::move(values));
    const Manifest& manifest = setting_.manifest;
    const Components& made = setting_.made;
    plan.charges = !plan.correlated ? independent_charges(manifest, made, setting_.facts.steps)
                   : plan.correlated->order ? plan.correlated->charges()
                                            : amplified_charges(manifest, made, *plan.correlated);
    return plan;
  }

  /// Starts sampler and aggregator without charging anything.
  StepPlan started(StepValues values) {
    const Manifest& manifest = setting_.manifest;
    StepPlan plan;
    plan.values = std::move(values);
    plan.batch_size =
        start_sampler(manifest, *setting_.made.sampler, setting_.facts, plan.values.batch_size);
    start_aggregator(manifest.aggregator, *setting_.made.aggregator, setting_.facts,
                     plan.values.noise_multiplier, plan.values.clip_norm, setting_.learning_rate);
    plan.clip_norm_adapts = setting_.made.adaptive_clip_norm != nullptr;
    plan.correlated = plan_correlated_steps(setting_, plan, correlated_);
    return plan;
  }

 private:
  const StepSetting& setting_;
  CorrelatedPlanner correlated_;
};

/// The facts for which the aggregator's numbers are optimised. With a rule for clients, the mean
/// number of participants is limited by the rule, not only by the sampler.
RunFacts facts_for_optimizing(const StepSetting& setting) {
  RunFacts facts = setting.facts;
  if (!setting.separation) return facts;
  const auto most = static_cast<double>(setting.separation->most_of(facts.steps));
  facts.batch_size = std::min(facts.batch_size, static_cast<double>(facts.dataset_size) * most /
                                                    static_cast<double>(facts.steps));
  return facts;
}

/// Gives the aggregator its optimised numbers, computed now or kept from the first plan.
/// \returns the numbers; empty if the aggregator optimises nothing.
std::vector<double> use_optimized(const StepSetting& setting, const StepSchedules& schedules) {
  Aggregator& aggregator = *setting.made.aggregator;
  return setting.manifest.aggregator.with_position([&] {
    std::vector<double> numbers = setting.kept.optimized([&] {
      const StepValues values = schedules.at(1.0);
      std::vector<double> multipliers = values.noise_multiplier;
      if (setting.manifest.noise_off) multipliers.assign(setting.facts.steps, 1.0);
      return aggregator.optimized({.steps = setting.facts.steps,
                                   .noise_multipliers = multipliers,
                                   .clip_norms = values.clip_norm,
                                   .learning_rates = setting.learning_rate,
                                   .facts = facts_for_optimizing(setting)});
    });
    if (!numbers.empty()) aggregator.use(numbers);
    return numbers;
  });
}

/// The largest noise multiplier at a scale of 1; 0 if the scale applies to batches.
double largest_noise(const StepSchedules& schedules) {
  if (schedules.batch_size.is_shape) return 0.0;
  const std::vector<double> noise = schedules.at(1.0).noise_multiplier;
  return *std::ranges::max_element(noise);
}

double scale_of(const StepSetting& setting, const StepSchedules& schedules,
                std::optional<double> target, const BesideCharges& beside) {
  const ComponentUse* open = schedules.open(setting.manifest);
  if (open == nullptr) return 1.0;
  return open->with_position([&] {
    if (!target && schedules.noise_is_rescaled) {
      throw ConfigError(
          "is to be scaled (privacy.calibrate: all), but there is no privacy.target_epsilon");
    }
    if (!target) {
      throw ConfigError(
          "gives a shape without a scale: set privacy.target_epsilon, or give it its initial "
          "value");
    }
    return setting.kept.scale([&] {
      StepCharger charger(setting);
      const std::vector<Charge> before = beside(setting.facts.steps);
      return calibrated_scale(
          setting.manifest,
          [&](double candidate) { return charger.charged(schedules.at(candidate)).charges; },
          *target, before, largest_noise(schedules));
    });
  });
}

/// The schedules, with the noise of the steps; their scale; and, if the noise was derived from an
/// influence, the multiplier of uniform noise with the same guarantee.
struct ScaledSchedules {
  StepSchedules schedules;
  double scale = 1.0;
  std::optional<double> uniform_noise{};
};

StepSchedules with_noise(StepSchedules schedules, std::vector<double> shape) {
  schedules.noise.at = std::move(shape);
  return schedules;
}

/// Noise, up to a factor, that divides the budget by the accountant's own costs.
std::vector<double> noise_by_guard(const StepSetting& setting, const StepSchedules& schedules,
                                   const BesideCharges& beside, double uniform) {
  const std::vector<Charge> before = beside(setting.facts.steps);
  StepCharger charger(setting);
  const auto charges_of = [&](const std::vector<double>& noise) {
    return charger.charged(with_noise(schedules, noise).at(1.0)).charges;
  };
  const auto cost_of = [&](std::span<const Charge> charges) {
    if (setting.manifest.on_trial) setting.manifest.on_trial();
    return guard_answer(setting.manifest, before, charges).value;
  };
  return setting.kept.schedule(
      "noise_by_cost",
      noise_by_cost(schedules.noise.influence.values, uniform, charges_of, cost_of, setting.kept));
}

/// Finds the scale, and compares noise that was derived from an influence with uniform noise of the
/// same guarantee under the same accountant. If steps do not cost 1/sigma^2, and the influence
/// suits any cost, replaces the noise by noise that divides the budget by the accountant's own
/// costs, or by uniform noise if that is no worse.
ScaledSchedules scaled(const StepSetting& setting, const StepSchedules& schedules,
                       std::optional<double> target, const BesideCharges& beside) {
  const ScheduleValues& noise = schedules.noise;
  const auto as_given = [&] { return scale_of(setting, schedules, target, beside); };
  if (noise.influence.values.empty() || !noise.is_shape || schedules.noise_is_std || !target)
    return {schedules, as_given()};
  const StepPlan at_one = StepCharger(setting).charged(schedules.at(1.0));
  if (at_one.correlated) return {schedules, as_given()};
  if (costs_inverse_square(at_one.charges, at_one.values.noise_multiplier)) {
    const double scale = as_given();
    const double budget = budget_of_noise(noise.at) / (scale * scale);
    return {schedules, scale, std::sqrt(static_cast<double>(noise.at.size()) / budget)};
  }
  const StepSchedules uniform = with_noise(schedules, std::vector(noise.at.size(), 1.0));
  const double uniform_noise = scale_of(setting, uniform, target, beside);
  if (!noise.influence.suits_any_cost) return {schedules, as_given(), uniform_noise};

  constexpr double kRounding = 1e-9;  // covers the rounding errors of other processors
  const StepSchedules divided =
      with_noise(schedules, noise_by_guard(setting, schedules, beside, uniform_noise));
  const double scale = scale_of(setting, divided, target, beside);
  const auto weighted = [&](const StepSchedules& one, double at) {
    return weighted_noise(noise.influence.values, one.at(at).noise_multiplier);
  };
  if (weighted(divided, scale) < weighted(uniform, uniform_noise) * (1.0 - kRounding))
    return {divided, scale, uniform_noise};
  return {uniform, uniform_noise, uniform_noise};
}

}  // namespace

StepPlan plan_noise(const StepSetting& setting, const StepSchedules& schedules,
                    std::optional<double> target, const BesideCharges& beside) {
  std::vector<double> optimized = use_optimized(setting, schedules);
  const ScaledSchedules used = scaled(setting, schedules, target, beside);
  // Uses a new charger, so the plan is the same whether its scale was searched for or kept.
  StepPlan plan = StepCharger(setting).charged(used.schedules.at(used.scale));
  plan.optimized = std::move(optimized);
  plan.scale = used.scale;
  plan.costs_inverse_square =
      !plan.correlated && costs_inverse_square(plan.charges, plan.values.noise_multiplier);
  plan.uniform_noise = used.uniform_noise;
  return plan;
}

StepPlan plan_without_noise(const StepSetting& setting, const StepSchedules& schedules) {
  std::vector<double> optimized = use_optimized(setting, schedules);
  StepValues values = schedules.at(1.0);
  // Recipes need noise > 0: their rules for summing data still apply, but no noise is drawn.
  values.noise_multiplier.assign(setting.facts.steps, 1.0);
  StepPlan plan = StepCharger(setting).started(std::move(values));
  plan.values.noise_multiplier.assign(setting.facts.steps, 0.0);
  plan.optimized = std::move(optimized);
  return plan;
}

}  // namespace privgrad::core
