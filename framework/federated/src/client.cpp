#include "privgrad/federated/client.hpp"

#include <cmath>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/plan/fed_avg_plan.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/longest_stay.hpp"
#include "privgrad/trust/paid_elsewhere.hpp"
#include "privgrad/trust/row_sum.hpp"

namespace privgrad::core {
namespace {

/// A bound so large that the gradient of a mean loss exceeds it only if training has failed.
constexpr double kNoClipping = 1e15;

}  // namespace

void WorkbenchPool::with(const std::function<void(Workbench&)>& action) {
  std::unique_ptr<Workbench> bench;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      bench = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (bench == nullptr) bench = std::make_unique<Workbench>(make_workbench(plan_, executor_));
  action(*bench);
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(bench));
}

Client::Client(std::size_t number, const FederatedPlan& federated, const Federated& wish,
               const Dataset& data, const RunKeys& keys, Executor& executor,
               SecondLook* second_look, ReleaseWitness* leader)
    : number_(number),
      keys_(keys),
      federated_(federated),
      wish_(wish),
      client_(federated.clients[number]),
      plan_(*client_.plan),
      data_(data),
      executor_(executor),
      trainer_(plan_, data, key_of(number, keys.lasting()), executor,
               {.rows = client_.rows,
                .takes_any_rows = federated.at_server,
                .second_look = second_look,
                .leader = leader,
                .client = number}),
      leader_(leader) {
  if (!federated.estimates || wish.estimates == EstimateMode::from_models) return;
  estimate_sampler_ =
      start_estimate_sampler(*plan_.manifest, plan_.dataset_size, federated.estimate_batch_size);
  estimate_divisor_ = estimate_sampler_->expected_batch_size(0);
  const RandomKey key = key_of(number, keys.lasting());
  estimate_noise_ = std::make_unique<IndependentNoise>(federated.estimate_noise);
  estimate_mechanism_.emplace(*estimate_noise_, key.derive("estimates"), executor);
  estimate_random_ = make_random_source(key.derive("estimates/sampler"));
}

RandomKey Client::key_of(std::size_t number, const RandomKey& run_key) {
  return number == 0 ? run_key : run_key.derive("client/" + std::to_string(number));
}

void Client::open_ledger(const std::filesystem::path& file, const nlohmann::json& facts) {
  trainer_.open_ledger(file, facts);
  if (has_paid_estimates()) watch_estimates();
}

void Client::save(StateWriter& out) const {
  out.begin("client");
  out.put(progress(*this));
  trainer_.save(out, Trainer::Between::rounds);
  if (estimate_mechanism_) estimate_mechanism_->save(out);
  if (estimate_watch_) estimate_watch_->save(out);
}

void Client::restore(StateReader& in) {
  in.begin("client");
  in.get(progress(*this));
  trainer_.restore(in, Trainer::Between::rounds);
  if (estimate_mechanism_) estimate_mechanism_->restore(in);
  if (!has_paid_estimates()) return;
  watch_estimates();
  estimate_watch_->restore(in);
}

/// Like Trainer::use_key_of_step(), for all steps of a round and the round's estimate.
void Client::use_key_of_round() {
  if (!keys_.ratchets()) return;
  const RandomKey key = key_of(number_, keys_.of_step());
  trainer_.use_key_of_step(key);
  if (!estimate_mechanism_) return;
  estimate_mechanism_->use_key(key.derive("estimates"));
  if (rest_on_secret_draws(plan_.beside))
    estimate_random_ = make_random_source(key.derive("estimates/sampler"));
}

bool Client::has_paid_estimates() const {
  return estimate_sampler_ != nullptr && !plan_.beside.empty();
}

/// The estimates have a separate sampler instance. Like the steps' sampler, it is asked for its
/// charges, and its batches are tested against these charges.
void Client::watch_estimates() {
  const Manifest& manifest = *plan_.manifest;
  if (estimate_charges(manifest, *estimate_sampler_, federated_.estimate_noise) != plan_.beside) {
    throw PluginError(manifest.sampler.component->full_name() +
                      ": the charges for estimates differ from the plan; two instances with the "
                      "same parameters must agree");
  }
  estimate_watch_.emplace(plan_.beside,
                          manifest.sampler.component->full_name() + " (of estimates)");
}

void Client::close_ledger(const std::string& status, const nlohmann::json& files) {
  if (trainer_.ledger() != nullptr) trainer_.ledger()->close(status, steps_done_, files);
}

void Client::give_up(std::uint64_t steps) {
  if (pay_for(steps)) trainer_.hand_over(steps);
  next_step_ += steps;
  steps_done_ += steps;
  if (!has_paid_estimates() || estimates_made_ >= plan_.beside.size()) return;
  pay_for_estimate();
  hand_over_estimate();
  ++estimates_made_;
}

void Client::has_come_to(std::uint64_t steps, std::uint64_t estimates, bool diverged) {
  next_step_ = steps_done_ = steps;
  estimates_made_ = estimates;
  diverged_ = diverged;
}

void Client::begin_at(std::uint64_t step) {
  trainer_.forget_clip_norm();
  next_step_ = step;
}

std::optional<ClientRound> Client::train(std::span<const float> received, std::uint64_t steps,
                                         Workbench& bench) {
  if (!pay_for(steps)) return std::nullopt;
  ClientRound round = make_steps(received, steps, bench);
  if (wants_estimate()) {
    pay_for_estimate();
    estimate(received, round, bench);
  }
  return round;
}

bool Client::pay_for(std::uint64_t steps) { return trainer_.pay_for(next_step_, steps); }

ClientRound Client::make_steps(std::span<const float> received, std::uint64_t steps,
                               Workbench& bench) {
  use_key_of_round();
  bench.load({received.begin(), received.end()});
  trainer_.begin_round(received);
  ClientRound round;
  diverged_ = false;
  for (std::uint64_t i = 0; i < steps && !diverged_; ++i) {
    const double rate = plan_.learning_rate[next_step_];
    diverged_ = !trainer_.take_step(next_step_, bench);
    const double noise = rate * trainer_.gradient_noise();
    round.rates += rate;
    round.noise_variance += noise * noise;
    ++next_step_;
    ++steps_done_;
  }
  round.model = bench.parameters;
  return round;
}

bool Client::wants_estimate() const {
  return federated_.estimates && !diverged_ && wish_.estimates != EstimateMode::from_models;
}

/// Pays for an estimate. Exact estimates, and estimates in runs without noise, are not charged.
bool Client::pay_for_estimate() {
  Ledger* ledger = trainer_.ledger();
  if (ledger == nullptr || wish_.estimates != EstimateMode::private_sums) return true;
  if (estimates_made_ >= plan_.beside.size())
    throw PrivacyError("an estimate was requested that is not in the plan");
  paid_estimates_ = ledger->charge(std::span(plan_.beside).subspan(estimates_made_, 1));
  return !paid_estimates_.empty();
}

void Client::expect_receipts() {
  trainer_.expect_receipts();
  is_paid_elsewhere_ = true;
  if (has_paid_estimates()) watch_estimates();
}

void Client::take_over_estimate() {
  if (!is_paid_elsewhere_ || estimates_made_ >= plan_.beside.size())
    throw PrivacyError("another process paid for an estimate that is not in the plan");
  paid_estimates_ = PaidElsewhere::receipts(std::span(plan_.beside).subspan(estimates_made_, 1));
}

void Client::estimate(std::span<const float> received, ClientRound& round, Workbench& bench) {
  if (wish_.estimates == EstimateMode::private_sums) {
    estimate_privately(received, round, bench);
  } else {
    estimate_exactly(received, round, bench);
  }
}

/// Draws numbers of this client's rows. Refuses a batch with an example twice: the example would
/// contribute twice, but the bound is for one contribution.
/// \returns false for an empty batch.
bool Client::draw_estimate_batch() {
  estimate_sampler_->sample(estimates_made_, client_.rows.size(), *estimate_random_,
                            estimate_batch_);
  if (estimate_watch_)
    estimate_watch_->check(estimates_made_, client_.rows.size(), estimate_batch_);
  std::vector<bool> drawn(client_.rows.size(), false);
  for (std::uint32_t& row : estimate_batch_) {
    const bool exists = row < client_.rows.size();
    if (!exists || drawn[row]) {
      throw PluginError(plan_.manifest->sampler.component->full_name() +
                        ": broke its contract: in the batch of an estimate, row " +
                        std::to_string(row) + (exists ? " was drawn twice" : " does not exist"));
    }
    drawn[row] = true;
    row = client_.rows[row];
  }
  ++estimates_made_;
  return !estimate_batch_.empty();
}

/// The loss of each example of the batch.
std::vector<double> Client::losses(std::vector<float> model, Workbench& bench) const {
  bench.load(std::move(model));
  return example_losses(*bench.program, data_, estimate_batch_, executor_);
}

/// An example contributes two numbers: the change of its own loss along the client's path, and the
/// second difference there. Both depend only on the example and on released models; they are
/// clipped together to estimate_bound, and are 0 if not finite. A separate sampler draws the batch
/// as for a step, and each release was planned as one of at most `rounds`.
void Client::estimate_privately(std::span<const float> received, ClientRound& round,
                                Workbench& bench) {
  std::vector<Receipt> receipts = std::exchange(paid_estimates_, {});
  const bool is_charged = trainer_.ledger() != nullptr || is_paid_elsewhere_;
  if (is_charged && receipts.empty()) return;  // no estimate is made unless it was paid for
  draw_estimate_batch();
  std::vector<float> middle(received.size());
  for (std::size_t j = 0; j < middle.size(); ++j)
    middle[j] = 0.5f * received[j] + 0.5f * round.model[j];
  const std::vector<double> before = losses({received.begin(), received.end()}, bench);
  const std::vector<double> halfway = losses(std::move(middle), bench);
  const std::vector<double> after = losses(round.model, bench);
  std::vector<float> rows;
  for (std::size_t i = 0; i < before.size(); ++i) {
    float change = static_cast<float>(after[i] - before[i]);
    float second = static_cast<float>(after[i] - 2.0 * halfway[i] + before[i]);
    if (!std::isfinite(change) || !std::isfinite(second)) change = second = 0.0f;
    rows.push_back(change);
    rows.push_back(second);
  }
  BoundedOnGrid sum = row_sum(std::move(rows), 2, wish_.estimate_bound, executor_);
  std::vector<Released> own;
  own.push_back(receipts.empty()
                    ? estimate_mechanism_->release_without_noise(std::move(sum), estimate_divisor_)
                    : estimate_mechanism_->release(std::move(sum), std::move(receipts.front()),
                                                   estimate_divisor_));
  const std::span<const Released> released = led_by(leader_,
                                                    {.what = ReleaseSeen::What::estimate,
                                                     .client = number_,
                                                     .step = estimates_made_ - 1,
                                                     .batch = estimate_batch_,
                                                     .model = received,
                                                     .reached = round.model,
                                                     .clip_norm = wish_.estimate_bound},
                                                    own);
  round.loss_changes = {static_cast<double>(released.front().values()[0]),
                        static_cast<double>(released.front().values()[1])};
}

Released Client::exact_gradient(std::vector<float> model, Workbench& bench) {
  bench.load(std::move(model));
  const LongestStay rule;
  Bounded sum = sum_for_no_noise(
      *bench.program, data_, estimate_batch_,
      {.rule = rule, .groups = plan_.setting->groups, .clip_norm = kNoClipping, .count_share = 0.0},
      executor_, plan_.manifest->microbatch_size, &bench.memory);
  return estimate_mechanism_->release_without_noise(std::move(sum),
                                                    static_cast<double>(estimate_batch_.size()));
}

void Client::estimate_exactly(std::span<const float> received, ClientRound& round,
                              Workbench& bench) {
  if (!draw_estimate_batch()) return;
  const auto mean_loss = [&](std::vector<float> model) {
    double sum = 0.0;
    for (const double loss : losses(std::move(model), bench)) sum += loss;
    return sum / static_cast<double>(estimate_batch_.size());
  };
  const std::vector<float> start(received.begin(), received.end());
  ExactLosses exact;
  exact.before = mean_loss(start);
  exact.after = mean_loss(round.model);
  const Released before = exact_gradient(start, bench);
  const Released after = exact_gradient(round.model, bench);
  exact.gradient.assign(before.values().begin(), before.values().end());
  double square = 0.0;
  for (std::size_t j = 0; j < exact.gradient.size(); ++j) {
    const double change =
        static_cast<double>(after.values()[j]) - static_cast<double>(exact.gradient[j]);
    square += change * change;
    exact.along += change * (static_cast<double>(round.model[j]) - static_cast<double>(start[j]));
  }
  exact.gradient_change = std::sqrt(square);
  round.exact = std::move(exact);
}

}  // namespace privgrad::core
