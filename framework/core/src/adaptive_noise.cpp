#include "privgrad/core/adaptive_noise.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "privgrad/core/certified_accountant.hpp"
#include "privgrad/core/clipped_sum.hpp"
#include "privgrad/error.hpp"
#include "privgrad/value.hpp"

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

// ---- the run

AdaptiveNoise::AdaptiveNoise(const Plan& plan, const Dataset& train, const RandomKey& key,
                             Executor& executor)
    : plan_(plan),
      adapts_(*plan.noise_adapts),
      train_(train),
      executor_(executor),
      check_noise_(adapts_.measurement.noise_multiplier),
      check_mechanism_(check_noise_, key.derive("noise/checks"), executor),
      multipliers_(plan.noise_multiplier),
      current_(plan.noise_multiplier.front()) {}

bool AdaptiveNoise::choose(std::uint64_t step, const Program& program, const Dataset& test,
                           Ledger& ledger) {
  if (step % adapts_.measurement.every != 0) return true;
  if (adapts_.is_charged() && step == 0) {
    losses_ = bounded_losses(program);
    return true;
  }
  const std::optional<double> measured = measure(step, program, test, ledger);
  if (!measured) return false;
  record_.measured_at.push_back(step);
  record_.measured.push_back(*measured);
  change_to(adapts_.rule->next(current_, record_.measured), step);
  return true;
}

std::optional<double> AdaptiveNoise::measure(std::uint64_t step, const Program& program,
                                             const Dataset& test, Ledger& ledger) {
  if (adapts_.is_charged()) return release_change(step, program, ledger);
  // Public rows and a released model.
  const Evaluation sums = evaluate(program, test, executor_);
  const auto rows = static_cast<double>(test.rows());
  return adapts_.measurement.what == Measured::validation_loss
             ? sums.loss / rows
             : static_cast<double>(sums.correct) / rows;
}

/// A loss that is not finite counts as the bound: the worst that any can be.
std::vector<double> AdaptiveNoise::bounded_losses(const Program& program) const {
  std::vector<double> losses = example_losses(program, train_, all_rows(train_.rows()), executor_);
  const double bound = adapts_.measurement.loss_bound;
  for (double& loss : losses) loss = std::isfinite(loss) ? std::clamp(loss, 0.0, bound) : bound;
  return losses;
}

/// Paid for first; without that, the losses are not looked at.
std::optional<double> AdaptiveNoise::release_change(std::uint64_t step, const Program& program,
                                                    Ledger& ledger) {
  const Charge charge = adapts_.check_charge(step);
  std::vector<Receipt> receipts = ledger.charge({&charge, 1});
  if (receipts.empty()) return std::nullopt;
  record_.checks.push_back(charge);
  std::vector<double> losses = bounded_losses(program);
  std::vector<float> changes;
  changes.reserve(losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    changes.push_back(static_cast<float>(losses[i] - losses_[i]));
  losses_ = std::move(losses);
  Bounded sum = row_sum(std::move(changes), 1, adapts_.measurement.loss_bound, executor_);
  const Released mean = check_mechanism_.release(std::move(sum), std::move(receipts.front()),
                                                 static_cast<double>(plan_.dataset_size));
  return static_cast<double>(mean.values().front());
}

/// The aggregator is told, so that its recipes, which charges are derived from and releases are
/// made by, have the noise that was chosen.
void AdaptiveNoise::change_to(double multiplier, std::uint64_t step) {
  const Manifest& manifest = *plan_.manifest;
  if (!std::isfinite(multiplier) || multiplier <= 0.0) {
    throw PluginError(manifest.noise_multiplier.component->full_name() +
                      ": gave a noise multiplier of " + format_number(multiplier) +
                      ", expected a finite number above 0");
  }
  if (multiplier == current_) return;
  current_ = multiplier;
  std::fill(multipliers_.begin() + static_cast<std::ptrdiff_t>(step), multipliers_.end(),
            multiplier);
  manifest.aggregator.with_position([&] {
    plan_.aggregator->start({.steps = plan_.steps(),
                             .noise_multipliers = multipliers_,
                             .clip_norms = plan_.clip_norm,
                             .learning_rates = plan_.learning_rate,
                             .facts = plan_.facts});
  });
}

std::optional<Receipt> AdaptiveNoise::pay(std::uint64_t step, Ledger& ledger) {
  const Event release = release_event(*plan_.aggregator, step, plan_.manifest->adjacency);
  const Charge charge{step, release, release};
  std::vector<Receipt> receipts = ledger.charge({&charge, 1});
  if (receipts.empty()) return std::nullopt;
  record_.noise_multiplier.push_back(current_);
  record_.steps.push_back(charge);
  return std::move(receipts.front());
}

// ---- the plan

namespace {

/// What the noise's own place in the manifest is to blame for.
void refuse_setting(const Manifest& manifest, const std::string& name) {
  if (manifest.federated) {
    throw ConfigError(name +
                      " follows what the run releases, which federated runs do not support; give "
                      "a schedule that is fixed beforehand");
  }
  if (!manifest.target_epsilon) {
    throw ConfigError(name +
                      " chooses the noise as the run goes, and what such a run guarantees is the "
                      "budget that it keeps; set privacy.target_epsilon");
  }
  if (manifest.random_iterate) {
    throw ConfigError(name +
                      " decides about the number of steps, but output: random_iterate draws one "
                      "of them beforehand; use output: last");
  }
}

void refuse_accountants(const Manifest& manifest, const std::string& name) {
  const auto accountant = make_accountant(manifest.accountant);
  manifest.accountant.with_position([&] {
    if (dynamic_cast<const ComposesAdaptively*>(accountant.get()) != nullptr) return;
    throw PrivacyError(manifest.accountant.component->factory.info.name +
                       " is no privacy filter, so that it cannot guard noise which " + name +
                       " chooses from earlier releases; use accountant zcdp");
  });
  if (manifest.also.empty()) return;
  manifest.also.front().with_position([&] {
    throw PrivacyError("says what steps cost that are fixed beforehand, but " + name +
                       " chooses their noise as the run goes; remove privacy.also");
  });
}

void check_measurement(const Measurement& measurement, const Manifest& manifest, const Plan& plan,
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
  if (plan.info.test_rows == 0) {
    throw ConfigError(name +
                      " follows the test examples, and there are none; use descent_check, "
                      "which follows the training examples at a price");
  }
  if (!manifest.test_is_public) {
    throw PrivacyError(name +
                       " follows the test examples exactly, which nothing is charged for: if they "
                       "are public, say so (data.test_is_public: true); if not, use descent_check");
  }
  if (measurement.what == Measured::validation_accuracy && plan.network.input.classes == 0) {
    throw ConfigError(name +
                      " follows the accuracy, but the data has no classes; use metric: loss");
  }
}

}  // namespace

std::optional<AdaptiveNoisePlan> plan_adaptive_noise(const Manifest& manifest, const Plan& plan) {
  const ComponentUse& use = manifest.noise_multiplier;
  if (use.component == nullptr || manifest.noise_off) return std::nullopt;
  AdaptiveNoisePlan adapts;
  adapts.schedule = use.make<Schedule>();
  adapts.rule = dynamic_cast<const AdaptiveSchedule*>(adapts.schedule.get());
  if (adapts.rule == nullptr) return std::nullopt;
  const std::string& name = use.component->factory.info.name;
  use.with_position([&] {
    refuse_setting(manifest, name);
    adapts.schedule->start({.steps = plan.steps(), .slot = "noise_multiplier"});
    adapts.measurement = adapts.rule->measurement();
    check_measurement(adapts.measurement, manifest, plan, name);
    for (std::uint64_t step = 1; step < plan.steps(); ++step) {
      if (adapts.schedule->value(step) == adapts.schedule->value(0)) continue;
      throw PluginError(name + " adapts the noise, and plans another one for step " +
                        std::to_string(step) + " than for the first");
    }
  });
  refuse_accountants(manifest, name);
  return adapts;
}

void check_adaptive_noise(const Manifest& manifest, const Plan& plan) {
  const std::string& name = manifest.noise_multiplier.component->factory.info.name;
  if (plan.adaptive != nullptr) {
    manifest.clipping.with_position([&] {
      throw ConfigError("releases a count that is planned for noise known beforehand, but " + name +
                        " chooses it as the run goes; use a clipping that keeps the clip norm");
    });
  }
  if (plan.correlated || plan.grid_levels != 0) {
    manifest.aggregator.with_position([&] {
      throw ConfigError(
          (plan.correlated ? "carries noise on from step to step" : "adds noise on a grid") +
          std::string(", which is planned for noise known beforehand, but ") + name +
          " chooses it as the run goes; use aggregator gaussian");
    });
  }
  const bool in_full = std::all_of(plan.charges.begin(), plan.charges.end(),
                                   [](const Charge& one) { return one.cost == one.release; });
  if (in_full) return;
  manifest.sampler.with_position([&] {
    throw PrivacyError("charges steps for noise that is known beforehand, but " + name +
                       " chooses it as the run goes, so that each step is to be charged in full; "
                       "use full_batch, or amplification: false if the sampler has it");
  });
}

}  // namespace privgrad::core
