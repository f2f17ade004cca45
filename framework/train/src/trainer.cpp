#include "privgrad/train/trainer.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <string>
#include <utility>

#include "device_steps.hpp"
#include "host_steps.hpp"
#include "privgrad/data/breach.hpp"
#include "privgrad/error.hpp"
#include "privgrad/federated.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/train/process_group.hpp"
#include "privgrad/trust/certified_accountant.hpp"
#include "privgrad/trust/paid_elsewhere.hpp"
#include "shared_steps.hpp"
#include "step_state.hpp"

namespace privgrad::core {
namespace {

/// The number of steps that are paid for together, with one answer of the accountant and one flush
/// to the disk. Apart from reports in between, a run has at most 64 payments, so neither a slow
/// accountant nor a slow disk delays the steps. An interrupted run may have paid for steps that it
/// never made, but has made no unpaid step.
std::uint64_t steps_per_payment(std::uint64_t steps) {
  return std::max<std::uint64_t>(1, (steps + 63) / 64);
}

/// The key for the noise of an epoch with these coins. A state and a copy whose coins were edited
/// release different sums in the rest of the epoch, so their noise must be unrelated.
RandomKey key_with_coins(const RandomKey& key, const RandomKey& coins) {
  const auto bytes = coins.secret_bytes();
  return key.derive("coins\n" + std::string(bytes.begin(), bytes.end()));
}

}  // namespace

Trainer::Trainer(const Plan& plan, const Dataset& data, const RandomKey& key, Executor& executor,
                 TrainerSetting setting)
    : plan_(plan),
      data_(data),
      rows_(setting.rows),
      state_(std::make_unique<StepState>(plan, data, key, executor,
                                         setting.processes == nullptr
                                             ? std::nullopt
                                             : std::optional(setting.processes->parameters()))),
      device_checks_key_(key.derive("resident checks")),
      sampler_key_(key.derive("sampler")),
      sampler_random_(plan.public_order() != nullptr ? plan.public_order()->random
                                                     : make_random_source(sampler_key_)),
      secret_draws_(plan.public_order() == nullptr && rest_on_secret_draws(plan.charges)),
      draws_epochs_(draw_epochs(plan.charges)),
      listener_(std::move(setting.listener)) {
  if (setting.witness && state_->made.scaling != nullptr) {
    throw ConfigError("under " + plan.manifest->clipping.name() +
                      " clipping a row without a gradient may still contribute, but audits rely on "
                      "it to contribute nothing; audit the plan with another clipping");
  }
  state_->witness = std::move(setting.witness);
  state_->second_look = setting.second_look;
  state_->leader = setting.leader;
  state_->client = setting.client;
  if (plan.noise_adapts)
    adaptive_noise_.emplace(plan, *state_->made.aggregator, data, key, executor, setting.leader);
  std::size_t optimizer_size = plan.parameters;
  if (setting.processes == nullptr) {
    engine_ = make_host_steps(*state_);
  } else {
    auto shared = std::make_unique<SharedSteps>(*state_, *setting.processes);
    shared_ = shared.get();
    optimizer_size = shared->optimizer_size();
    engine_ = std::move(shared);
  }
  state_->made.optimizer->start(optimizer_size);
  if (plan.public_order() != nullptr && plan.public_order()->separation)
    separation_watch_.emplace(*plan.public_order()->separation, data.rows());
  if (setting.takes_any_rows) take_any_rows();
}

Trainer::~Trainer() = default;

void Trainer::open_ledger(const std::filesystem::path& file, const nlohmann::json& facts) {
  check_charges(plan_, state_->made);
  accountant_ = make_guard(plan_.manifest->accountant);
  accountant_->start(plan_.manifest->adjacency);
  ledger_.emplace(file,
                  Budget{plan_.manifest->target_epsilon, plan_.manifest->target_delta,
                         plan_.charges_are_bounds},
                  *accountant_, plan_.manifest->accountant.component->full_name(), facts);
  state_->receipts.expect();
  watch_sampling();
}

void Trainer::watch_sampling() {
  // With a public order, draw_batch() compares each batch with the order that was charged for.
  if (plan_.public_order() == nullptr)
    sampling_watch_.emplace(plan_.charges, plan_.manifest->sampler.component->full_name());
}

void Trainer::reopen_ledger(const std::filesystem::path& file, const nlohmann::json& facts,
                            bool may_repeat) {
  accountant_ = make_guard(plan_.manifest->accountant);
  accountant_->start(plan_.manifest->adjacency);
  restored_.may_repeat = may_repeat;
  ledger_.emplace(file,
                  Budget{plan_.manifest->target_epsilon, plan_.manifest->target_delta,
                         plan_.charges_are_bounds},
                  *accountant_, plan_.manifest->accountant.component->full_name(), facts,
                  restored_);
  state_->receipts.expect();
  for (Receipt& receipt : ledger_->take_receipts_in_hand())
    state_->receipts.add(std::move(receipt));
}

void Trainer::use_key_of_step(const RandomKey& key) {
  if (secret_draws_) {
    sampler_key_ = key.derive("sampler");
    sampler_random_ = make_random_source(sampler_key_);
  }
  state_->use_key_of_step(coins_ ? key_with_coins(key, coins_->key) : key);
  if (adaptive_noise_) adaptive_noise_->use_key(key);
}

void Trainer::save(StateWriter& out, Between where) const {
  engine_->begin_saving(out);
  out.begin("trainer");
  const LedgerPosition paid = ledger_ ? ledger_->position() : LedgerPosition{};
  out.put(paid, state_->receipts.size());
  if (where == Between::steps) engine_->save_optimizer(out);
  state_->save(out);
  if (adaptive_noise_) adaptive_noise_->save(out);
  out.put(coins_.has_value());
  if (coins_) out.put(coins_->first, coins_->last, coins_->key);
  if (sampling_watch_) sampling_watch_->save(out);
  if (separation_watch_) separation_watch_->save(out);
}

void Trainer::restore(StateReader& in, Between where) {
  check_charges(plan_, state_->made);  // before adaptive noise changes the charges
  in.begin("trainer");
  in.get(restored_.at, restored_.in_hand);
  if (where == Between::steps) engine_->restore_optimizer(in);
  state_->restore(in);
  if (adaptive_noise_) adaptive_noise_->restore(in);
  if (in.flag()) {
    const std::uint64_t first = in.word(), last = in.word();
    coins_.emplace(EpochCoins{first, last, in.key()});
    epoch_random_ = make_random_source(coins_->key);
  }
  if (!plan_.manifest->noise_off) watch_sampling();
  if (sampling_watch_) sampling_watch_->restore(in);
  if (separation_watch_) separation_watch_->restore(in);
}

bool Trainer::choose_noise(std::uint64_t step, Workbench& bench, const Dataset& test) {
  return !adaptive_noise_ || adaptive_noise_->choose(step, bench, test, *ledger_);
}

bool Trainer::pay_for(std::uint64_t step, std::uint64_t at_least) {
  if (!ledger_ || state_->receipts.size() >= at_least) return true;
  if (adaptive_noise_) {
    if (auto receipt = adaptive_noise_->pay(step, *ledger_))
      state_->receipts.add(std::move(*receipt));
    return state_->receipts.size() >= at_least;
  }
  const std::uint64_t from = step + state_->receipts.size();
  // A block ends at the last step that the plan's budget pays for; the ledger checks this again.
  // Steps after a report are paid for after the report, which decides whether they are made.
  std::uint64_t limit =
      from < plan_.affordable_steps ? plan_.affordable_steps : plan_.charges.size();
  if (plan_.report && plan_.report->every > 0)
    limit = std::min(limit, from - from % plan_.report->every + plan_.report->every);
  const std::uint64_t wanted =
      std::max(steps_per_payment(plan_.charges.size()), at_least - state_->receipts.size());
  const std::uint64_t count = std::min(wanted, limit - from);
  for (Receipt& receipt : ledger_->charge(std::span(plan_.charges).subspan(from, count))) {
    state_->receipts.add(std::move(receipt));
  }
  return state_->receipts.size() >= at_least;
}

void Trainer::expect_receipts() {
  check_charges(plan_, state_->made);
  is_paid_elsewhere_ = true;
  state_->receipts.expect();
  watch_sampling();
}

void Trainer::take_over(std::uint64_t step, std::uint64_t count) {
  if (!is_paid_elsewhere_ || state_->receipts.size() > 0 || step > plan_.charges.size() ||
      count > plan_.charges.size() - step)
    throw PrivacyError("the steps that were paid for elsewhere are not the steps of the plan");
  for (Receipt& receipt : PaidElsewhere::receipts(std::span(plan_.charges).subspan(step, count)))
    state_->receipts.add(std::move(receipt));
}

void Trainer::hand_over(std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) (void)state_->receipts.take();
}

void Trainer::begin_round(std::span<const float> model) {
  Optimizer* optimizer = state_->made.optimizer.get();
  optimizer->start(plan_.parameters);
  optimizer->anchor(model);
}

void Trainer::forget_clip_norm() { state_->clip_norm = plan_.clip_norm.front(); }

void Trainer::let_steps_stay(Workbench& bench) {
  if (shared_ != nullptr || !DeviceSteps::can_make(*state_, *bench.program)) return;
  in_run_of(state_->program,
            [&] { engine_ = std::make_unique<DeviceSteps>(*state_, bench, device_checks_key_); });
}

void Trainer::bring_home(Workbench& bench) { engine_->bring_home(bench); }

void Trainer::load(Workbench& bench, std::vector<float> values) {
  bench.load(std::move(values));
  engine_->were_loaded(bench.parameters);
}

/// Refuses a step before the class weights that follow from released counts are known.
void Trainer::check_class_weights(const Workbench& bench) const {
  if (plan_.manifest->largest_class_weight && bench.class_weights.empty())
    throw PrivacyError("a step is about to be made before the class counts that weigh its losses");
}

bool Trainer::take_step(std::uint64_t step, Workbench& bench) {
  check_class_weights(bench);
  draw_batch(step);
  if (listener_) listener_(batch_);
  return engine_->take({step, batch_}, bench);
}

void Trainer::take_part(const StepOrder& order, Workbench& bench) {
  check_class_weights(bench);
  // A correlated mechanism needs a receipt in each process; process 0 has paid for the step.
  if (state_->correlated) take_over(order.step, 1);
  shared_->take_part(order, bench);
}

/// An epoch's batches all use the coins of its first step; fresh coins would put some examples into
/// two batches.
const RandomSource& Trainer::coins_of(std::uint64_t step) {
  if (!draws_epochs_) return *sampler_random_;
  if (coins_ && step > coins_->first && step <= coins_->last) return *epoch_random_;
  forget_coins();
  const SamplingLaw law = sampling_law(plan_.charges, step);
  if (law.kind != SamplingLaw::Kind::allocated) return *sampler_random_;
  if (step != law.first) {
    throw PrivacyError("the coins that drew the epoch of step " + std::to_string(step) +
                       " are gone, and others would draw other batches than were charged");
  }
  coins_.emplace(EpochCoins{law.first, law.last, sampler_key_});
  epoch_random_ = sampler_random_;
  return *epoch_random_;
}

void Trainer::forget_coins() {
  coins_.reset();
  epoch_random_.reset();
}

void Trainer::take_any_rows() {
  const std::size_t rows = rows_ ? rows_->size() : data_.rows();
  if (rows == plan_.dataset_size) return;
  const std::vector<double>& batches = plan_.sampler_batch_size;
  takes_all_rows_ = rows == 0 || std::ranges::any_of(batches, [=](double batch) {
                      return batch > static_cast<double>(rows);
                    });
  if (takes_all_rows_) return;
  try {
    state_->made.sampler->start({.dataset_size = rows,
                                 .steps = plan_.steps(),
                                 .adjacency = plan_.manifest->adjacency,
                                 .batch_sizes = batches});
  } catch (const std::exception&) {  // the error's text would reveal the number of rows
    takes_all_rows_ = true;
  }
}

void Trainer::draw_batch(std::uint64_t step) {
  const std::size_t rows = rows_ ? rows_->size() : data_.rows();
  if (takes_all_rows_) {
    batch_.resize(rows);
    std::iota(batch_.begin(), batch_.end(), std::uint32_t{0});
  } else {
    in_run_of(plan_.manifest->sampler.component->full_name(),
              [&] { state_->made.sampler->sample(step, rows, coins_of(step), batch_); });
  }
  if (sampling_watch_) sampling_watch_->check(step, rows, batch_);
  // The coins of a finished epoch would reveal which examples were in which batch.
  if (coins_ && step == coins_->last) forget_coins();
  const DrawnOrder* order = plan_.public_order();
  if (separation_watch_) {
    leave_out_early(step);
    separation_watch_->take_part(step, batch_);
  } else if (order != nullptr && !order->participation->covers(step, batch_, *state_->made.order)) {
    throw PluginError(plan_.manifest->sampler.component->full_name() + ": the batch of step " +
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

void Trainer::leave_out_early(std::uint64_t step) {
  refused_.clear();
  std::erase_if(batch_, [&](std::uint32_t unit) {
    std::string why = separation_watch_->why_not(unit, step);
    if (why.empty()) return false;
    refused_.emplace(unit, std::move(why));
    return true;
  });
}

RunChecks Trainer::checks() const {
  const ContributionChecks& made = state_->contribution_checks;
  return {.contributions = made.made(),
          .batches = sampling_watch_ ? sampling_watch_->batches() : 0,
          .reported_differences = made.differences(),
          .noise_by = engine_->noise_by()};
}

double Trainer::gradient_noise() const noexcept { return state_->gradient_noise; }

double Trainer::clip_norm() const noexcept { return state_->clip_norm; }

std::optional<double> Trainer::clipped_fraction() const noexcept {
  return state_->clipped_fraction;
}

}  // namespace privgrad::core
