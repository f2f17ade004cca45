#include "privgrad/train/adaptive_noise.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

double measured_on_test_rows(const Measurement& measurement, const Evaluation& sums,
                             std::size_t rows) {
  if (rows == 0)
    throw IoError("the noise follows the test examples (data), and the split has none");
  const auto all = static_cast<double>(rows);
  return measurement.what == Measured::validation_loss ? sums.loss / all
                                                       : static_cast<double>(sums.correct) / all;
}

AdaptiveNoise::AdaptiveNoise(const Plan& plan, Aggregator& aggregator, const Dataset& train,
                             const RandomKey& key, Executor& executor, ReleaseWitness* leader)
    : plan_(plan),
      adapts_(*plan.noise_adapts),
      schedule_(plan.manifest->noise_multiplier.make<Schedule>()),
      aggregator_(aggregator),
      train_(train),
      executor_(executor),
      check_noise_(adapts_.measurement.noise_multiplier),
      check_mechanism_(check_noise_, key.derive(kPurpose), executor),
      multipliers_(plan.noise_multiplier),
      current_(plan.noise_multiplier.front()),
      leader_(leader) {
  schedule_->start({.steps = plan.steps(), .slot = "noise_multiplier"});
}

bool AdaptiveNoise::choose(std::uint64_t step, Workbench& bench, const Dataset& test,
                           Ledger& ledger) {
  if (step % adapts_.measurement.every != 0) return true;
  if (adapts_.is_charged() && step == 0) {
    losses_ = bounded_losses(*bench.program);
    return true;
  }
  const std::optional<double> measured = measure(step, bench, test, ledger);
  if (!measured) return false;
  record_.measured_at.push_back(step);
  record_.measured.push_back(*measured);
  change_to(schedule_->next(current_, record_.measured), step);
  return true;
}

std::optional<double> AdaptiveNoise::measure(std::uint64_t step, Workbench& bench,
                                             const Dataset& test, Ledger& ledger) {
  if (adapts_.is_charged()) return release_change(step, bench, ledger);
  // This costs nothing, because the rows are public and the model was released.
  const Program& program = bench.program_for_public_rows(plan_, executor_);
  return measured_on_test_rows(adapts_.measurement, evaluate(program, test, executor_),
                               test.rows());
}

/// A loss that is not finite counts as the bound, the worst value.
std::vector<double> AdaptiveNoise::bounded_losses(const Program& program) const {
  std::vector<double> losses = example_losses(program, train_, all_rows(train_.rows()), executor_);
  const double bound = adapts_.measurement.loss_bound;
  for (double& loss : losses) loss = std::isfinite(loss) ? std::clamp(loss, 0.0, bound) : bound;
  return losses;
}

/// Pays first; if the budget does not suffice, the losses are not computed.
std::optional<double> AdaptiveNoise::release_change(std::uint64_t step, const Workbench& bench,
                                                    Ledger& ledger) {
  const Charge charge = adapts_.check_charge(step);
  std::vector<Receipt> receipts = ledger.charge({&charge, 1});
  if (receipts.empty()) return std::nullopt;
  record_.checks.push_back(charge);
  std::vector<double> losses = bounded_losses(*bench.program);
  std::vector<float> changes;
  changes.reserve(losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    changes.push_back(static_cast<float>(losses[i] - losses_[i]));
  losses_ = std::move(losses);
  BoundedOnGrid sum = row_sum(std::move(changes), 1, adapts_.measurement.loss_bound, executor_);
  std::vector<Released> own;
  own.push_back(check_mechanism_.release(std::move(sum), std::move(receipts.front()),
                                         static_cast<double>(plan_.dataset_size)));
  const std::span<const Released> mean = led_by(leader_,
                                                {.what = ReleaseSeen::What::measurement,
                                                 .client = std::nullopt,
                                                 .step = step,
                                                 .batch = {},
                                                 .model = bench.parameters,
                                                 .reached = {},
                                                 .clip_norm = adapts_.measurement.loss_bound},
                                                own);
  return static_cast<double>(mean.front().values().front());
}

/// Also restarts the aggregator, because its recipes determine charges and releases.
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
  tell_aggregator();
}

void AdaptiveNoise::tell_aggregator() {
  start_aggregator(plan_.manifest->aggregator, aggregator_, plan_.facts, multipliers_,
                   plan_.clip_norm, plan_.learning_rate);
}

namespace {

/// A charge whose events are stored as JSON texts.
struct SavedCharge {
  std::uint64_t step = 0;
  std::string release, cost, what;

  static auto state(auto& self) { return std::tie(self.step, self.release, self.cost, self.what); }
};

std::vector<SavedCharge> saved(const std::vector<Charge>& charges) {
  std::vector<SavedCharge> all;
  all.reserve(charges.size());
  for (const Charge& one : charges)
    all.push_back({one.step, to_json(one.release).dump(), to_json(one.cost).dump(), one.what});
  return all;
}

std::vector<Charge> restored_charges(StateReader& in) {
  std::vector<SavedCharge> all;
  in.get(all);
  std::vector<Charge> charges;
  charges.reserve(all.size());
  for (SavedCharge& one : all) {
    charges.push_back({one.step, event_from_json(one.release, "checkpoint"),
                       event_from_json(one.cost, "checkpoint"), std::move(one.what)});
  }
  return charges;
}

}  // namespace

void AdaptiveNoise::save(StateWriter& out) const {
  out.begin("adaptive noise");
  check_mechanism_.save(out);
  out.put(numbers(*this));
  out.put(saved(record_.steps), saved(record_.checks));
}

void AdaptiveNoise::restore(StateReader& in) {
  in.begin("adaptive noise");
  check_mechanism_.restore(in);
  const std::size_t steps = multipliers_.size();
  in.get(numbers(*this));
  if (!losses_.empty() && losses_.size() != train_.rows()) in.fail("it has losses of other rows");
  if (multipliers_.size() != steps || record_.measured.size() != record_.measured_at.size())
    in.fail("its noise is of other steps");
  record_.steps = restored_charges(in);
  record_.checks = restored_charges(in);
  tell_aggregator();
}

std::optional<Receipt> AdaptiveNoise::pay(std::uint64_t step, Ledger& ledger) {
  const Event release = release_event(aggregator_, step);
  const Charge charge{step, release, release};
  std::vector<Receipt> receipts = ledger.charge({&charge, 1});
  if (receipts.empty()) return std::nullopt;
  record_.noise_multiplier.push_back(current_);
  record_.steps.push_back(charge);
  return std::move(receipts.front());
}

}  // namespace privgrad::core
