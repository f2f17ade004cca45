#include "correlated_steps.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "guard.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/banded_cost.hpp"
#include "privgrad/trust/sampling_watch.hpp"

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

/// Refuses an optimizer that expects prefix sums if the releases are not prefix sums, because it
/// would not train.
void refuse_other_than_sums(const StepSetting& setting, std::span<const CorrelatedPart> parts) {
  if (!setting.made.optimizer->takes_prefix_sums()) return;
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

/// Refuses settings in which a window cannot work: noise of earlier steps is drawn again with the
/// same bits, and is subtracted from releases that must have the same coordinates.
void refuse_unfit_for_windows(const StepSetting& setting) {
  const Manifest& manifest = setting.manifest;
  const std::string who = "aggregator " + manifest.aggregator.name();
  if (manifest.arithmetic == Arithmetic::floating && !manifest.noise_off) {
    manifest.aggregator.with_position([&] {
      throw ConfigError(manifest.aggregator.name() +
                        " draws the noise of earlier steps again, which only exact arithmetic "
                        "supports; leave out arithmetic: float");
    });
  }
  if (setting.made.scaling == nullptr) return;
  manifest.clipping.with_position([&] {
    throw ConfigError("scales the coordinates of gradients anew in each step, but " + who +
                      " subtracts noise of earlier steps, which has other coordinates; use "
                      "aggregator gaussian");
  });
}

/// Refuses changing sums: noise of earlier steps fits only sums with the same bound and divisor.
void refuse_changing_sums(const StepSetting& setting, const StepPlan& steps) {
  const Manifest& manifest = setting.manifest;
  const std::string why =
      ", but aggregator " + manifest.aggregator.name() + " releases sums over many steps";
  const auto refuse_changes = [&](const std::vector<double>& values, const ComponentUse& use) {
    const bool changes = std::ranges::adjacent_find(values, std::not_equal_to<>()) != values.end();
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

[[noreturn]] void refuse_secret_batches(const Manifest& manifest) {
  throw PrivacyError(manifest.sampler.name() +
                     " draws its batches to have them amplified, and no amplification is proved "
                     "for the correlated releases of aggregator " +
                     manifest.aggregator.name() +
                     ", which are accounted by who takes part in which step; use sampler "
                     "shuffle, sequential or full_batch, or {kind: matrix, form: banded} with "
                     "sampler cyclic_poisson");
}

/// Checks that two steps of an example are at least as far apart as the strategy has bands, and
/// that a separate coin decides about each step.
void require_cycles(const Manifest& manifest, std::span<const Charge> charges, std::size_t bands) {
  const SamplingLaw law = sampling_law(charges, 0);
  if (law.kind != SamplingLaw::Kind::poisson) refuse_secret_batches(manifest);
  if (law.steps >= bands) return;
  throw PrivacyError(manifest.sampler.name() + " may draw an example in steps that are " +
                     std::to_string(law.steps) + " apart, but the strategy of aggregator " +
                     manifest.aggregator.name() + " has " + std::to_string(bands) +
                     " bands; use sampler {kind: cyclic_poisson, cycle: " + std::to_string(bands) +
                     "}");
}

/// Whether each unit draws its steps independently, according to the sampler's own charges.
bool draws_units_apart(const StepSetting& setting) {
  const std::vector<Event> releases(setting.facts.steps, Event::gaussian(1.0));
  const std::vector<Charge> charges =
      sampled_charges(setting.manifest, *setting.made.sampler, releases);
  for (std::uint64_t step = 0; step < setting.facts.steps; ++step) {
    const SamplingLaw::Kind kind = sampling_law(charges, step).kind;
    if (kind != SamplingLaw::Kind::poisson && kind != SamplingLaw::Kind::allocated) return false;
  }
  return true;
}

/// The minimum separation is a rule for each client separately, so other clients must not affect a
/// client's rounds: under add_or_remove_one, removing one client would change the rounds of others.
void require_separable(const StepSetting& setting, std::span<const CorrelatedPart> parts) {
  const Manifest& manifest = setting.manifest;
  if (parts.size() != 1 || parts.front().recipes.window() == 0) {
    throw error_at(manifest, "federated.min_separation",
                   "is given, but the cost of clients that take part whenever they may is proved "
                   "for aggregator matrix, not for " +
                       manifest.aggregator.name() + "; use matrix, or leave it out");
  }
  if (manifest.adjacency != Adjacency::add_or_remove_one || draws_units_apart(setting)) return;
  throw privacy_error_at(
      manifest, "federated.min_separation",
      "is given under add_or_remove_one, where a client's participation must not depend on other "
      "clients; participation " +
          setting.manifest.sampler.name() +
          " is not charged as drawing each client independently, as poisson is; use poisson, or "
          "adjacency zero_out or replace_one");
}

/// Gradients of one epoch are combined with their differences from the gradients at the same place
/// in the next epoch. Both belong to the same examples only if the order stays the same.
void refuse_changing_order(const StepSetting& setting, const Participation& order) {
  const std::uint64_t epoch = setting.made.differences->epoch_steps();
  for (std::uint64_t step = epoch; step < setting.facts.steps; ++step) {
    const auto now = order.at(step);
    const auto before = order.at(step - epoch);
    if (std::ranges::equal(now, before)) continue;
    throw ConfigError(setting.manifest.sampler.name() +
                      " draws other batches in each epoch, but aggregator " +
                      setting.manifest.aggregator.name() +
                      " adds differences between epochs to gradients of the same examples; use "
                      "{kind: shuffle, fresh: false}, sequential or full_batch");
  }
}

}  // namespace

std::shared_ptr<const CorrelatedPlan> plan_correlated_steps(const StepSetting& setting,
                                                            const StepPlan& steps,
                                                            CorrelatedPlanner& planner) {
  std::vector<CorrelatedPart> parts = correlated_parts(setting);
  refuse_other_than_sums(setting, parts);
  if (setting.separation) require_separable(setting, parts);
  if (parts.empty()) return nullptr;
  if (parts.front().recipes.window() > 0) {
    refuse_unfit_for_windows(setting);
  } else {
    refuse_changing_sums(setting, steps);
  }
  if (setting.separation) {
    return std::make_shared<const CorrelatedPlan>(
        planner.plan(std::move(parts), *setting.separation));
  }
  return setting.manifest.sampler.with_position([&] {
    if (PublicOrder* order = setting.made.order) {
      auto plan = std::make_shared<const CorrelatedPlan>(
          planner.plan(std::move(parts), *order, steps.values.batch_size));
      if (setting.made.differences != nullptr)
        refuse_changing_order(setting, *plan->order->participation);
      return plan;
    }
    const std::vector<double> strategy = setting.made.aggregator->strategy();
    if (strategy.empty()) refuse_secret_batches(setting.manifest);
    std::vector<double> multipliers = banded_multipliers(parts.front().recipes, strategy);
    return std::make_shared<const CorrelatedPlan>(
        CorrelatedPlan{.parts = std::move(parts), .multipliers = std::move(multipliers)});
  });
}

std::vector<Charge> amplified_charges(const Manifest& manifest, const Components& made,
                                      const CorrelatedPlan& plan) {
  std::vector<Event> releases;
  for (const double multiplier : plan.multipliers) releases.push_back(Event::gaussian(multiplier));
  std::vector<Charge> charges = sampled_charges(manifest, *made.sampler, releases);
  manifest.sampler.with_position(
      [&] { require_cycles(manifest, charges, made.aggregator->strategy().size()); });
  for (Charge& charge : charges) charge.release = release_of(plan.parts, charge.step);
  return charges;
}

}  // namespace privgrad::core
