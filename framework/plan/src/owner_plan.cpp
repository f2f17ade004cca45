#include "owner_plan.hpp"

#include <utility>

#include "adaptive_clipping_plan.hpp"
#include "budget_plan.hpp"
#include "privgrad/plan/exact_plan.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "step_count.hpp"
#include "step_plan.hpp"
#include "step_schedules.hpp"

namespace privgrad::core {
namespace {

/// The charges besides the steps: measurements of adaptive noise, or statistics, a report and the
/// owner's other charges.
BesideCharges charges_beside(const std::optional<AdaptiveNoisePlan>& noise_adapts,
                             const OwnerSetting& owner,
                             const std::vector<PlannedStatistic>& statistics,
                             const std::optional<PlannedReport>& report) {
  if (noise_adapts) {  // adaptive noise excludes the other releases
    return [adapts = *noise_adapts](std::uint64_t steps) { return adapts.check_charges(steps); };
  }
  return [before = charges_of(statistics), report, owners = owner.beside](std::uint64_t steps) {
    std::vector<Charge> beside = before;
    const std::vector<Charge> reports = report ? report->charges(steps) : std::vector<Charge>{};
    beside.insert(beside.end(), reports.begin(), reports.end());
    beside.insert(beside.end(), owners.begin(), owners.end());
    return beside;
  };
}

/// The ledger adds up charges in the order of the releases, so with releases between the steps, its
/// sum may differ from the plan's by rounding errors. A calibrated scale was proved to meet the
/// budget when it was found, so a repeated plan does not prove this again. If the noise is given,
/// the budget determines the number of steps, which is the same in every repetition.
std::optional<double> target_of(std::optional<double> target, bool has_charges_between,
                                bool is_calibrated_before) {
  if (target && has_charges_between) *target *= 1.0 - 1e-9;
  if (target && is_calibrated_before) *target *= 1.0 + kOfProcessors;
  return target;
}

void check_augmentation(const Manifest& manifest, const Components& made) {
  if (!manifest.augmentation || made.differences == nullptr) return;
  throw error_at(manifest, "augmentation",
                 "alters examples anew in each step, and aggregator " + manifest.aggregator.name() +
                     " takes differences between the gradients of two steps; use another "
                     "aggregator");
}

/// The steps that the budget pays for.
/// \throws PluginError if the sampler's charges for these steps are too small.
BudgetPlan plan_checked_budget(const Manifest& manifest, const RunFacts& facts,
                               const StepPlan& plan, std::optional<double> target,
                               const BesideCharges& beside, bool are_bounds) {
  if (manifest.noise_off) return no_budget(manifest.accountant, facts.steps);
  BudgetPlan budget = plan_budget(manifest, plan.charges, target, beside, are_bounds);
  if (!plan.correlated) {
    check_sampler_charges(manifest, facts.dataset_size, plan.batch_size,
                          std::span(plan.charges).first(budget.affordable_steps),
                          budget.accountants.front().epsilon);
  }
  return budget;
}

void check_clip_norms(const ComponentUse& schedule, const OwnerSetting& owner,
                      const std::vector<double>& clip_norms) {
  const auto check = [&] {
    for (const double clip_norm : clip_norms) check_clip_norm(clip_norm);
  };
  if (owner.clip_norm) return check();
  schedule.with_position(check);
}

/// \param count  receives an entry in auto_values if the learning rate is `auto`.
std::vector<double> plan_learning_rate(const Manifest& manifest, const OwnerSetting& owner,
                                       const Optimizer& optimizer, StepCount& count) {
  const std::uint64_t steps = count.facts.steps;
  if (owner.learning_rate) return std::vector<double>(steps, *owner.learning_rate);
  if (!manifest.auto_learning_rate) return learning_rates(manifest.learning_rate, steps);
  count.auto_values.push_back(chosen_learning_rate(manifest, count.facts, optimizer));
  return std::vector<double>(steps, count.auto_values.back().value);
}

/// Replaces the values computed here by the values with which a resumed run began.
/// \returns the learning rate of each step.
std::vector<double> keep(KeptNumbers& kept, StepSchedules& schedules,
                         std::vector<double> learning_rate) {
  const auto replace = [&](const char* slot, std::vector<double>& values) {
    values = kept.schedule(slot, std::move(values));
  };
  replace(schedules.noise_is_std ? "noise_std" : "noise_multiplier", schedules.noise.at);
  replace("clip_norm", schedules.clip_norm.at);
  replace("batch_size", schedules.batch_size.at);
  return kept.schedule("learning_rate", std::move(learning_rate));
}

void check_range(const Manifest& manifest, const PlanNumbers& numbers,
                 const CorrelatedPlan* correlated) {
  if (!manifest.noise_off && numbers.arithmetic == Arithmetic::exact)
    check_exact_range(manifest.aggregator, manifest.adjacency, numbers, correlated);
}

/// The key for drawing a public order of examples.
RandomKey order_key(std::optional<std::uint64_t> seed, const Setting& setting,
                    const OwnerSetting& owner) {
  if (!seed && setting.recorded && setting.recorded->order_key)
    return RandomKey::from_public_hex(*setting.recorded->order_key);
  if (owner.key) return *owner.key;
  // facts.json publishes this key, so it must not be the plan's; with a seed, no key is secret.
  return seed ? *setting.plan_key : setting.plan_key->derive("order");
}

}  // namespace

Plan plan_owner(const Manifest& manifest, std::shared_ptr<const Setting> setting,
                const OwnerSetting& owner) {
  const RandomKey key = order_key(manifest.seed, *setting, owner);
  const Components made = make_components(manifest, setting->groups);
  check_augmentation(manifest, made);

  // ---- the number of steps, and their schedules
  StepCount count = plan_step_count(manifest, *setting, owner, made);
  const std::uint64_t steps = count.facts.steps;
  const auto noise_adapts = plan_adaptive_noise(manifest, *setting, steps);
  StepSchedules schedules = plan_schedules(manifest, owner, steps, noise_adapts.has_value());
  std::vector<double> learning_rate =
      keep(*setting->kept, schedules, plan_learning_rate(manifest, owner, *made.optimizer, count));
  check_clipping(manifest, schedules, made);

  // ---- the steps' cost and noise
  std::vector<PlannedStatistic> statistics = plan_statistics(manifest, *setting);
  const std::optional<PlannedReport> report = plan_report(manifest, *setting, steps);
  check_shares(manifest, statistics, report, steps);
  const BesideCharges beside = charges_beside(noise_adapts, owner, statistics, report);
  const bool is_mixed = report || !owner.beside.empty() || (noise_adapts && !beside(steps).empty());
  const bool is_calibrated_again = setting->kept->is_made_again() && schedules.open(manifest);
  const std::optional<double> target =
      target_of(manifest.target_epsilon, is_mixed, is_calibrated_again);
  const StepSetting step_setting{manifest, count.facts,    learning_rate,   made,
                                 key,      *setting->kept, owner.separation};
  StepPlan step_plan = manifest.noise_off ? plan_without_noise(step_setting, schedules)
                                          : plan_noise(step_setting, schedules, target, beside);
  if (noise_adapts) check_adaptive_noise(manifest, step_plan);

  // ---- the steps that the budget pays for
  const bool in_full = owner.is_accounted_in_full || (report && report->patience > 0);
  const bool are_bounds = in_full || (step_plan.correlated && !step_plan.correlated->is_attained());
  BudgetPlan budget =
      plan_checked_budget(manifest, count.facts, step_plan, target, beside, are_bounds);
  check_clip_norms(manifest.clip_norm, owner, step_plan.values.clip_norm);
  for (auto& value : auto_values_of(manifest.aggregator, made))
    count.auto_values.push_back(std::move(value));
  CountRelease released_count = plan_count(manifest.clipping, step_plan, made);
  PlanNumbers numbers{.unit = PrivacyUnit::example,
                      .dataset_size = owner.dataset_size,
                      .parameters = setting->parameters,
                      .planned_steps = steps,
                      .facts = count.facts,
                      .auto_values = std::move(count.auto_values),
                      .optimized = std::move(step_plan.optimized),
                      .noise_multiplier = std::move(step_plan.values.noise_multiplier),
                      .clip_norm = std::move(step_plan.values.clip_norm),
                      .learning_rate = std::move(learning_rate),
                      .batch_size = std::move(step_plan.batch_size),
                      .sampler_batch_size = std::move(step_plan.values.batch_size),
                      .noise_adapts = noise_adapts,
                      .noise_is_rescaled = schedules.noise_is_rescaled,
                      .noise_factor = schedules.noise_is_rescaled ? step_plan.scale : 1.0,
                      .influence = schedules.influence(),
                      .influence_is_unaccounted = schedules.noise.influence.is_unaccounted,
                      .costs_inverse_square = step_plan.costs_inverse_square,
                      .uniform_noise = step_plan.uniform_noise,
                      .count_noise = std::move(released_count.noise),
                      .count_share = std::move(released_count.share),
                      .arithmetic = manifest.arithmetic,
                      .statistics = std::move(statistics),
                      .report = report,
                      .charges = std::move(step_plan.charges),
                      .beside = std::move(budget.beside),
                      .affordable_steps = budget.affordable_steps,
                      .is_accounted_in_full = in_full,
                      .charges_are_bounds = are_bounds,
                      .accountants = std::move(budget.accountants),
                      .event = std::move(budget.event)};
  check_range(manifest, numbers, step_plan.correlated.get());
  if (noise_adapts) numbers = with_budget_as_guarantee(manifest, std::move(numbers));
  // Without a seed, this key draws only the order, so it may be shown.
  const bool shows_key = step_plan.has_order() && !manifest.noise_off && !manifest.seed;
  return {std::move(numbers),
          &manifest,
          std::move(setting),
          std::move(step_plan.correlated),
          nullptr,
          {},
          shows_key ? std::optional(key.public_hex()) : std::nullopt};
}

}  // namespace privgrad::core
