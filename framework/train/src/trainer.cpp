#include "privgrad/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include "privgrad/data/breach.hpp"
#include "privgrad/error.hpp"
#include "privgrad/federated.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/model/augmented_program.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plan/exact_plan.hpp"
#include "privgrad/train/process_group.hpp"
#include "privgrad/trust/certified_accountant.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/joint_release.hpp"
#include "privgrad/trust/paid_elsewhere.hpp"

namespace privgrad::core {
namespace {

/// Steps that are paid for together: one answer of the accountant, one flush to the disk. But for
/// reports that come between, at most 64 times a run, so that neither a slow accountant nor a slow
/// disk holds up the steps. A run that is cut off may have paid for steps that it never made; the
/// other way round cannot happen.
std::uint64_t steps_per_payment(std::uint64_t steps) {
  return std::max<std::uint64_t>(1, (steps + 63) / 64);
}

}  // namespace

bool rest_on_secret_draws(std::span<const Charge> charges) {
  return std::any_of(charges.begin(), charges.end(), [](const Charge& charge) {
    return std::holds_alternative<PoissonSampledEvent>(charge.cost.kind()) ||
           std::holds_alternative<SampledWithoutReplacementEvent>(charge.cost.kind());
  });
}

RunChecks& RunChecks::operator+=(const RunChecks& other) {
  contributions += other.contributions;
  batches += other.batches;
  if (noise_by.empty()) noise_by = other.noise_by;
  reported_differences += other.reported_differences;
  return *this;
}

void Workbench::load(std::vector<float> values) {
  parameters = std::move(values);
  program->load_parameters(parameters);
}

std::unique_ptr<Program> make_program(const Plan& plan, ComponentPtr<Backend>& backend,
                                      Executor& executor) {
  return compile_program(*plan.manifest, *plan.setting, backend, executor);
}

Workbench make_workbench(const Plan& plan, Executor& executor) {
  Workbench bench;
  bench.program = make_program(plan, bench.backend, executor);
  return bench;
}

std::vector<float> initial_parameters(const Plan& plan, const RandomKey& key) {
  const Setting& setting = *plan.setting;
  std::vector<float> parameters(parameter_count(setting.whole));
  const auto source = make_random_source(key.derive("model"));
  const auto random = source->stream(0);
  plan.manifest->model.with_position(
      [&] { setting.model->initialise(setting.whole, *random, parameters); });
  if (setting.initial) setting.initial->put_into(parameters);
  if (setting.lora) {
    const auto adapters = make_random_source(key.derive("lora"))->stream(0);
    return setting.lora->beginning(std::span(parameters).subspan(setting.frozen_parameters),
                                   *adapters);
  }
  return {parameters.begin() + static_cast<std::ptrdiff_t>(setting.frozen_parameters),
          parameters.end()};
}

Trainer::Trainer(const Plan& plan, const Dataset& data,
                 std::optional<std::span<const std::uint32_t>> rows, const RandomKey& key,
                 Executor& executor, ProcessGroup* processes)
    : plan_(plan),
      manifest_(*plan.manifest),
      data_(data),
      rows_(rows),
      executor_(executor),
      made_(start_components(plan)),
      sampler_random_(plan.correlated ? plan.correlated->random
                                      : make_random_source(key.derive("sampler"))),
      mechanism_(*made_.aggregator, key.derive("noise"), executor),
      augmentation_key_(key.derive("augmentation")),
      resident_checks_key_(key.derive("resident checks")),
      contribution_checks_(key, plan.steps(), program_owner(manifest_, *plan.setting),
                           manifest_.clipping.component->full_name()),
      clip_norm_(plan.clip_norm.front()),
      secret_draws_(!plan.correlated && rest_on_secret_draws(plan.charges)),
      processes_(processes) {
  if (plan.correlated) {
    correlated_.emplace(
        plan.correlated->parts, key.derive("noise"), executor, most_rows(manifest_, plan),
        processes == nullptr ? std::nullopt : std::optional(processes->parameters()));
  }
  if (made_.differences != nullptr) differences_.emplace(plan, *made_.differences, executor);
  if (plan.noise_adapts) adaptive_noise_.emplace(plan, *made_.aggregator, data, key, executor);
  made_.optimizer->start(takes_slices() ? std::max<std::size_t>(1, processes->parameters().size)
                                        : plan_.parameters);
}

void Trainer::open_ledger(const std::filesystem::path& file, const nlohmann::json& facts) {
  check_charges(plan_, made_);
  accountant_ = make_guard(manifest_.accountant);
  accountant_->start(manifest_.adjacency);
  ledger_.emplace(
      file, Budget{manifest_.target_epsilon, manifest_.target_delta, plan_.charges_are_bounds},
      *accountant_, manifest_.accountant.component->full_name(), facts);
  watch_sampling();
}

void Trainer::watch_sampling() {
  // A correlated plan follows the very order that it is charged by, and compares each batch.
  if (!plan_.correlated)
    sampling_watch_.emplace(plan_.charges, manifest_.sampler.component->full_name());
}

void Trainer::reopen_ledger(const std::filesystem::path& file, const nlohmann::json& facts,
                            bool may_repeat) {
  accountant_ = make_guard(manifest_.accountant);
  accountant_->start(manifest_.adjacency);
  restored_.may_repeat = may_repeat;
  ledger_.emplace(
      file, Budget{manifest_.target_epsilon, manifest_.target_delta, plan_.charges_are_bounds},
      *accountant_, manifest_.accountant.component->full_name(), facts, restored_);
  for (Receipt& receipt : ledger_->take_receipts_in_hand()) receipts_.push_back(std::move(receipt));
}

namespace {

/// Two copies of a state whose scalings differ, by a rounding of one processor, say, would release
/// other sums: their noise has nothing in common.
RandomKey key_of_scaled(const RandomKey& noise_key, const Scaling& scaling) {
  const auto bytes = [](std::span<const float> numbers) {
    const auto raw = std::as_bytes(numbers);
    return std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
  };
  return noise_key.derive("scaled\n" + bytes(scaling.shift) + bytes(scaling.scale));
}

}  // namespace

void Trainer::use_key_of_step(const RandomKey& key) {
  if (secret_draws_) sampler_random_ = make_random_source(key.derive("sampler"));
  RandomKey noise_key = key.derive("noise");
  if (made_.scaling != nullptr)
    noise_key = key_of_scaled(noise_key, {made_.scaling->shift(), made_.scaling->scale()});
  mechanism_.use_key(noise_key);
  augmentation_key_ = key.derive("augmentation");
  if (correlated_) correlated_->use_key(noise_key);
  if (adaptive_noise_) adaptive_noise_->use_key(key);
}

namespace {

void save_component(StateWriter& out, const Checkpointable* component) {
  out.word(component != nullptr ? 1 : 0);
  if (component != nullptr) out.array(component->state());
}

void restore_component(StateReader& in, Checkpointable* component) {
  const bool is_saved = in.word() == 1;
  if (is_saved != (component != nullptr)) in.fail("a component's state is missing or too many");
  if (!is_saved) return;
  const std::vector<float> state = in.array<float>();
  try {
    component->restore(state);
  } catch (const ConfigError& problem) {
    in.fail(problem.what());
  }
}

}  // namespace

void Trainer::save_optimizer(StateWriter& out) const {
  const auto* component = dynamic_cast<const Checkpointable*>(made_.optimizer.get());
  if (resident_ != nullptr) {
    out.word(1);
    out.array(resident_state());
    return;
  }
  if (component == nullptr || !takes_slices()) return save_component(out, component);
  out.word(1);
  out.array(whole_state(component->state()));
}

void Trainer::restore_optimizer(StateReader& in) {
  auto* component = dynamic_cast<Checkpointable*>(made_.optimizer.get());
  if (component == nullptr || !takes_slices()) return restore_component(in, component);
  if (in.word() != 1) in.fail("a component's state is missing or too many");
  try {
    component->restore(state_of_slice(in.array<float>()));
  } catch (const ConfigError& problem) {
    in.fail(problem.what());
  }
}

void Trainer::save(StateWriter& out, Between where) const {
  // Both have slices, which are put together while all save.
  if (processes_ != nullptr && processes_->cluster().rank() == 0) processes_->ask_for_state();
  out.begin("trainer");
  const LedgerPosition paid = ledger_ ? ledger_->position() : LedgerPosition{};
  out.put(paid, receipts_.size());
  if (where == Between::steps) save_optimizer(out);
  save_component(out, dynamic_cast<const Checkpointable*>(made_.aggregator.get()));
  out.put(of_last_step(*this));
  mechanism_.save(out);
  if (correlated_) {
    if (processes_ != nullptr) out.put_together_by(processes_->whole());
    correlated_->save(out);
  }
  if (differences_) differences_->save(out);
  if (adaptive_noise_) adaptive_noise_->save(out);
  if (made_.scaling != nullptr)
    save_component(out, dynamic_cast<const Checkpointable*>(made_.clipping.get()));
  contribution_checks_.save(out);
  if (sampling_watch_) sampling_watch_->save(out);
}

void Trainer::restore(StateReader& in, Between where) {
  check_charges(plan_, made_);  // before noise that has adapted changes them
  in.begin("trainer");
  in.get(restored_.at, restored_.in_hand);
  if (where == Between::steps) restore_optimizer(in);
  restore_component(in, dynamic_cast<Checkpointable*>(made_.aggregator.get()));
  in.get(of_last_step(*this));
  mechanism_.restore(in);
  if (correlated_) correlated_->restore(in);
  if (differences_) differences_->restore(in);
  if (adaptive_noise_) adaptive_noise_->restore(in);
  if (made_.scaling != nullptr)
    restore_component(in, dynamic_cast<Checkpointable*>(made_.clipping.get()));
  contribution_checks_.restore(in);
  if (manifest_.noise_off) return;
  watch_sampling();
  if (sampling_watch_) sampling_watch_->restore(in);
}

bool Trainer::choose_noise(std::uint64_t step, const Workbench& bench, const Dataset& test) {
  return !adaptive_noise_ ||
         adaptive_noise_->choose(step, {*bench.program, bench.parameters}, test, *ledger_);
}

bool Trainer::pay_for(std::uint64_t step, std::uint64_t at_least) {
  if (!ledger_ || receipts_.size() >= at_least) return true;
  if (adaptive_noise_) {
    if (auto receipt = adaptive_noise_->pay(step, *ledger_))
      receipts_.push_back(std::move(*receipt));
    return receipts_.size() >= at_least;
  }
  const std::uint64_t from = step + receipts_.size();
  // A block ends where the plan says that the budget does; the ledger checks it all the same. Nor
  // are steps paid for before a report that comes before them: whether they come is not decided
  // yet.
  std::uint64_t limit =
      from < plan_.affordable_steps ? plan_.affordable_steps : plan_.charges.size();
  if (plan_.report && plan_.report->every > 0)
    limit = std::min(limit, from - from % plan_.report->every + plan_.report->every);
  const std::uint64_t wanted =
      std::max(steps_per_payment(plan_.charges.size()), at_least - receipts_.size());
  const std::uint64_t count = std::min(wanted, limit - from);
  for (Receipt& receipt : ledger_->charge(std::span(plan_.charges).subspan(from, count))) {
    receipts_.push_back(std::move(receipt));
  }
  return receipts_.size() >= at_least;
}

void Trainer::expect_receipts() {
  check_charges(plan_, made_);
  paid_elsewhere_ = true;
  watch_sampling();
}

void Trainer::take_over(std::uint64_t step, std::uint64_t count) {
  if (!paid_elsewhere_ || !receipts_.empty() || step > plan_.charges.size() ||
      count > plan_.charges.size() - step)
    throw PrivacyError("steps were paid for elsewhere that are not those of the plan");
  for (Receipt& receipt : PaidElsewhere::receipts(std::span(plan_.charges).subspan(step, count)))
    receipts_.push_back(std::move(receipt));
}

void Trainer::hand_over(std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) (void)take_receipt();
}

void Trainer::begin_round(std::span<const float> model) {
  made_.optimizer->start(plan_.parameters);
  if (auto* anchored = dynamic_cast<Anchored*>(made_.optimizer.get())) anchored->anchor(model);
}

void Trainer::forget_clip_norm() { clip_norm_ = plan_.clip_norm.front(); }

void Trainer::show_steps_to(std::function<void(const StepSeen&)> witness) {
  if (made_.scaling != nullptr) {
    throw ConfigError("under " + manifest_.clipping.name() +
                      " clipping a row without a gradient is not one without a contribution, as "
                      "audits take it to be; audit the plan with another clipping");
  }
  witness_ = std::move(witness);
}

void Trainer::lead_by(ReleaseWitness* witness, std::optional<std::size_t> client) {
  leader_ = witness;
  client_ = client;
  if (adaptive_noise_) adaptive_noise_->lead_by(witness);
}

bool Trainer::take_step(std::uint64_t step, Workbench& bench) {
  if (processes_ != nullptr) return take_step_together(step, bench);
  if (resident_ != nullptr) return take_resident_step(step, bench);
  draw_batch(step);
  if (listener_) listener_(batch_);
  const Clip clip = clip_of_step(step);
  std::vector<Released> own = release_step(step, clip, bench);
  const std::span<const Released> released = led_by(leader_,
                                                    {.what = ReleaseSeen::What::gradient,
                                                     .client = client_,
                                                     .step = step,
                                                     .batch = batch_,
                                                     .model = bench.parameters,
                                                     .reached = {},
                                                     .clip_norm = clip.clip_norm},
                                                    own);
  const std::optional<Released> made = gradient_of(step, clip, released);
  const Released& gradient = made ? *made : released.front();
  gradient_noise_ = gradient.noise_stddev();
  if (witness_)
    witness_({.step = step, .batch = batch_, .gradient = gradient, .clip_norm = clip_norm_});
  bench.previous = bench.parameters;
  update(bench.parameters, gradient, step);
  const bool finite = all_finite(bench.parameters);
  if (!finite) bench.parameters = bench.previous;
  bench.program->load_parameters(bench.parameters);
  return finite;
}

void Trainer::update(std::span<float> parameters, const Released& gradient, std::uint64_t step) {
  in_run_of(manifest_.optimizer.component->full_name(), [&] {
    made_.optimizer->step(parameters, gradient,
                          {.step = step, .learning_rate = plan_.learning_rate[step]});
  });
}

void Trainer::draw_batch(std::uint64_t step) {
  const std::size_t rows = rows_ ? rows_->size() : data_.rows();
  in_run_of(manifest_.sampler.component->full_name(),
            [&] { made_.sampler->sample(step, rows, *sampler_random_, batch_); });
  if (sampling_watch_) sampling_watch_->check(step, rows, batch_);
  if (plan_.correlated && !plan_.correlated->participation->covers(step, batch_, *made_.order)) {
    throw PluginError(manifest_.sampler.component->full_name() + ": the batch of step " +
                      std::to_string(step) + " has rows that its order does not name");
  }
  if (!rows_) return;
  for (std::uint32_t& row : batch_) {
    if (row >= rows_->size()) {
      throw PluginError("the sampler broke its contract: row " + std::to_string(row) +
                        " does not exist");
    }
    row = (*rows_)[row];
  }
}

Clip Trainer::clip_of_step(std::uint64_t step) {
  const bool adaptive = plan_.clip_norm_adapts();
  if (!adaptive || step == 0) clip_norm_ = plan_.clip_norm[step];
  return {.rule = *made_.clipping,
          .groups = plan_.setting->groups,
          .clip_norm = clip_norm_,
          .count_share = adaptive ? plan_.count_share[step] : 0.0};
}

std::vector<Released> Trainer::release_step(std::uint64_t step, const Clip& clip,
                                            Workbench& bench) {
  if (!is_charged() && plan_.noise_multiplier[step] != 0.0)
    throw PrivacyError("a step with noise needs a ledger, and none was opened");
  // A client's change is computed once: it is no function of its number that could be asked again.
  std::optional<ContributionCheck> check;
  if (is_charged() && plan_.unit == PrivacyUnit::example)
    check = contribution_checks_.draw(step, batch_.size());
  ContributionCheck* checked = check ? &*check : nullptr;
  std::vector<Released> released;
  const AugmentedStep augmented(*bench.program, augmentation_key_, step);
  in_run_of(
      program_owner(manifest_, *plan_.setting) + " or " + manifest_.clipping.component->full_name(),
      [&] {
        if (differences_) {
          released = release_differences(step, clip, bench, checked);
        } else if (made_.scaling != nullptr) {
          // Copied before the clipping sees norms of these rows: nothing of them can move it.
          const Scaling now{made_.scaling->shift(), made_.scaling->scale()};
          shift_.assign(now.shift.begin(), now.shift.end());
          scale_.assign(now.scale.begin(), now.scale.end());
          const auto rows = scaled_rows(*bench.program, {shift_, scale_});
          released.push_back(release_sum(step, clip, *rows, bench.memory, checked));
        } else {
          released.push_back(release_sum(step, clip, *bench.program, bench.memory, checked));
        }
      });
  if (check) contribution_checks_.add(*check);
  return released;
}

/// The gradient for the optimizer, and the next clip norm or the next step's scaling, from released
/// values alone.
/// \returns nothing where the gradient is the one release of the step.
std::optional<Released> Trainer::gradient_of(std::uint64_t step, const Clip& clip,
                                             std::span<const Released> released) {
  if (differences_) {
    std::optional<Released> combined;
    in_run_of(manifest_.aggregator.component->full_name(), [&] {
      combined.emplace(differences_->combine(step, released, clip.clip_norm, plan_.batch_size[step],
                                             is_charged()));
    });
    return combined;
  }
  if (made_.scaling != nullptr) {
    std::optional<Released> gradient;
    in_run_of(manifest_.clipping.component->full_name(), [&] {
      gradient.emplace(unscaled(released.front(), {shift_, scale_}));
      made_.scaling->learn(released.front());
    });
    return gradient;
  }
  if (!plan_.clip_norm_adapts()) return std::nullopt;
  JointParts parts = take_apart(released.front(), clip.clip_norm, clip.count_share);
  clipped_fraction_ = 1.0 - parts.unclipped;
  adapt_clip_norm(parts.unclipped);
  return std::move(parts.gradients);
}

/// From released values only, so the next clip norm costs nothing more.
void Trainer::adapt_clip_norm(double unclipped) {
  double next = 0.0;
  in_run_of(manifest_.clipping.component->full_name(),
            [&] { next = made_.adaptive_clip_norm->next_clip_norm(clip_norm_, unclipped); });
  if (!std::isfinite(next) || next <= 0.0) {
    throw PluginError(manifest_.clipping.component->full_name() + ": gave a clip norm of " +
                      format_number(next) + ", expected a finite number above 0");
  }
  clip_norm_ = std::clamp(next, kSmallestClipNorm, kLargestClipNorm);
}

Released Trainer::release_sum(std::uint64_t step, const Clip& clip, const Program& program,
                              SumMemory& memory, ContributionCheck* check) {
  const double divisor = plan_.batch_size[step];
  if (is_charged() && plan_.grid_levels == 0 && plan_.arithmetic == Arithmetic::exact) {
    // Correlated noise keeps whole sums from step to step.
    return release(correlated_
                       ? exact_sum(program, data_, batch_, clip, executor_,
                                   manifest_.microbatch_size, &memory, plan_.unit, check)
                       : exact_sum_to_come(program, data_, batch_, clip, executor_,
                                           manifest_.microbatch_size, memory, plan_.unit, check),
                   divisor);
  }
  if (check != nullptr) check_row(program, data_, batch_, *check);
  if (!is_charged()) {
    Bounded sum = plan_.arithmetic == Arithmetic::floating
                      ? clipped_sum(program, data_, batch_, clip, executor_, plan_.unit)
                      : sum_for_no_noise(program, data_, batch_, clip, executor_,
                                         manifest_.microbatch_size, &memory, plan_.unit);
    return correlated_ ? correlated_->release_without_noise(std::move(sum), divisor)
                       : mechanism_.release_without_noise(std::move(sum), divisor);
  }
  if (plan_.grid_levels != 0) {
    return release(
        clipped_sum_on_grid(program, data_, batch_, clip, plan_.grid_levels, executor_, plan_.unit),
        divisor);
  }
  Bounded sum = clipped_sum(program, data_, batch_, clip, executor_, plan_.unit);
  return correlated_ ? correlated_->release(std::move(sum), take_receipt(), divisor)
                     : mechanism_.release(std::move(sum), take_receipt(), divisor);
}

Released Trainer::release(BoundedOnGrid sum, double divisor) {
  if (correlated_) return correlated_->release(std::move(sum), take_receipt(), divisor);
  return mechanism_.release(std::move(sum), manifest_.adjacency, take_receipt(), divisor);
}

std::vector<Released> Trainer::release_differences(std::uint64_t step, const Clip& clip,
                                                   const Workbench& bench,
                                                   ContributionCheck* check) {
  if (check != nullptr) check_row(*bench.program, data_, batch_, *check);
  const double divisor = plan_.batch_size[step];
  const auto release_parts = [&](auto sums) {
    return correlated_->release(std::move(sums), take_receipt(), divisor);
  };
  const GradientDifferences::Step now{step, bench.parameters, *bench.program, data_, batch_, clip};
  if (!is_charged()) return correlated_->release_without_noise(differences_->sums(now), divisor);
  return plan_.arithmetic == Arithmetic::exact ? release_parts(differences_->exact_sums(now))
                                               : release_parts(differences_->sums(now));
}

RunChecks Trainer::checks() const {
  return {.contributions = contribution_checks_.made(),
          .batches = sampling_watch_ ? sampling_watch_->batches() : 0,
          .reported_differences = contribution_checks_.differences(),
          .noise_by = resident_ != nullptr ? program_owner(manifest_, *plan_.setting) : ""};
}

Receipt Trainer::take_receipt() {
  if (receipts_.empty()) throw PrivacyError("a step is about to be made that nobody paid for");
  Receipt receipt = std::move(receipts_.front());
  receipts_.pop_front();
  return receipt;
}

}  // namespace privgrad::core
