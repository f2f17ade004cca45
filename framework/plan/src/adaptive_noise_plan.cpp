#include "privgrad/plan/adaptive_noise_plan.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "guard.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plan/engines.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/record/short_numbers.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/value.hpp"
#include "step_plan.hpp"

namespace privgrad::core {

Charge AdaptiveNoisePlan::check_charge(std::uint64_t at) const {
  const Event release = Event::gaussian(measurement.noise_multiplier);
  return {at, release, release, std::string(to_text(measurement.what))};
}

std::vector<Charge> AdaptiveNoisePlan::check_charges(std::uint64_t steps) const {
  std::vector<Charge> charges;
  for (std::uint64_t i = 1; i <= checks_before(steps); ++i)
    charges.push_back(check_charge(i * measurement.every));
  return charges;
}

namespace {

/// Refuses settings that exclude adaptive noise; the caller adds the place to the message.
void refuse_setting(const Manifest& manifest, const std::string& name) {
  if (manifest.federated && !supports(Engine::federated, Trait::adaptive_noise)) {
    throw ConfigError(name +
                      " follows what the run releases, which federated runs do not support; give "
                      "a schedule that is fixed beforehand");
  }
  if (!manifest.target_epsilon) {
    throw ConfigError(name +
                      " chooses the noise during the run, so the run guarantees only the budget "
                      "that it keeps; set privacy.target_epsilon");
  }
  if (manifest.random_iterate) {
    throw ConfigError(name +
                      " decides about the number of steps, but output: random_iterate draws one "
                      "of them beforehand; use output: last");
  }
}

void refuse_accountants(const ComponentUse& guard, const std::vector<ComponentUse>& also,
                        const std::string& name) {
  const auto accountant = make_guard(guard);
  guard.with_position([&] {
    if (accountant->is_filter()) return;
    throw PrivacyError(guard.name() + " is not a privacy filter, so it cannot guard noise that " +
                       name + " chooses from earlier releases; use accountant zcdp or rdp_filter");
  });
  if (also.empty()) return;
  also.front().with_position([&] {
    throw PrivacyError("computes the cost of steps that are fixed beforehand, but " + name +
                       " chooses their noise during the run; remove privacy.also");
  });
}

void check_measurement(const Measurement& measurement, bool test_is_public, const Setting& setting,
                       const std::string& name) {
  const auto is_positive = [](double value) { return std::isfinite(value) && value > 0.0; };
  if (measurement.every == 0) throw PluginError(name + " asks for a measurement every 0 steps");
  if (measurement.what == Measured::loss_change) {
    if (is_positive(measurement.loss_bound) && is_positive(measurement.noise_multiplier)) {
      return check_clip_norm(measurement.loss_bound, "the bound of a loss's change ");
    }
    throw PluginError(name + " asks for a change of the loss with a bound of " +
                      format_number(measurement.loss_bound) + " and a noise multiplier of " +
                      format_number(measurement.noise_multiplier) +
                      ", expected finite numbers above 0");
  }
  if (!setting.info.has_test_split) {
    throw ConfigError(name +
                      " follows the test examples, and there are none; use descent_check, which "
                      "follows the training examples at a price");
  }
  if (!test_is_public) {
    throw PrivacyError(name +
                       " follows the test examples exactly, which nothing is charged for: if they "
                       "are public, say so (data.test_is_public: true); if not, use descent_check");
  }
  if (measurement.what == Measured::validation_accuracy && setting.network.input.classes == 0) {
    throw ConfigError(name +
                      " follows the accuracy, but the data has no classes; use metric: loss");
  }
}

/// The zcdp event that costs as much as the budget. Any run that the filter allows is rho-zCDP with
/// this rho, because no larger sum of rhos meets the target.
Event event_of_budget(const Manifest& manifest) {
  const auto fits = [&](double rho) {
    const Event event = Event::zcdp(rho);
    return guard_answer(manifest, {{0, event, event}}).value <= *manifest.target_epsilon;
  };
  double above = 1.0;
  while (fits(above)) above *= 2.0;
  double rho = 0.0;
  for (double middle = 0.5 * above; rho < middle && middle < above;
       middle = rho + 0.5 * (above - rho)) {
    (fits(middle) ? rho : above) = middle;
  }
  return Event::zcdp(rho);
}

}  // namespace

std::optional<AdaptiveNoisePlan> plan_adaptive_noise(const Manifest& manifest,
                                                     const Setting& setting, std::uint64_t steps) {
  const ComponentUse& use = manifest.noise_multiplier;
  if (!use.is_given() || manifest.noise_off) return std::nullopt;
  const auto schedule = use.make<Schedule>();
  const std::optional<Measurement> measurement = schedule->measurement();
  if (!measurement) return std::nullopt;
  AdaptiveNoisePlan adapts;
  adapts.measurement = *measurement;
  use.with_position([&] {
    refuse_setting(manifest, use.name());
    schedule->start({.steps = steps, .slot = "noise_multiplier"});
    check_measurement(adapts.measurement, manifest.test_is_public, setting, use.name());
    for (std::uint64_t step = 1; step < steps; ++step) {
      if (schedule->value(step) == schedule->value(0)) continue;
      throw PluginError(use.name() + " adapts the noise, and plans another one for step " +
                        std::to_string(step) + " than for the first");
    }
  });
  refuse_accountants(manifest.accountant, manifest.also, use.name());
  return adapts;
}

void check_adaptive_noise(const Manifest& manifest, const StepPlan& steps) {
  const std::string& name = manifest.noise_multiplier.name();
  if (steps.clip_norm_adapts) {
    manifest.clipping.with_position([&] {
      throw ConfigError("releases a count that is planned for noise known beforehand, but " + name +
                        " chooses it during the run; use a clipping that keeps the clip norm");
    });
  }
  if (steps.correlated) {
    manifest.aggregator.with_position([&] {
      throw ConfigError(
          "carries noise on from step to step, which is planned for noise known beforehand, but " +
          name + " chooses it during the run; use aggregator gaussian");
    });
  }
  const bool in_full =
      std::ranges::all_of(steps.charges, [](const Charge& one) { return one.cost == one.release; });
  if (in_full) return;
  manifest.sampler.with_position([&] {
    throw PrivacyError("charges steps for noise that is known beforehand, but " + name +
                       " chooses it during the run, so each step must be charged in full; use "
                       "full_batch, or amplification: false if the sampler has it");
  });
}

PlanNumbers with_budget_as_guarantee(const Manifest& manifest, PlanNumbers numbers) {
  AdaptiveNoisePlan& adapts = *numbers.noise_adapts;
  adapts.of_checks = guard_answer(manifest, numbers.beside);
  PrivacyAnswer& epsilon = numbers.accountants.front().epsilon;
  adapts.unchanged = std::exchange(
      epsilon, {.value = *manifest.target_epsilon,
                .bound = BoundKind::upper,
                .lower = {},
                .note = "the budget, which the noise is chosen within; if it never changed, " +
                        std::to_string(numbers.affordable_steps) + " steps would spend " +
                        short_bound(epsilon.value)});
  numbers.event = event_of_budget(manifest);
  return numbers;
}

}  // namespace privgrad::core
