#include "privgrad/train/run.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "privgrad/plan/engines.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/train/accuracy_report.hpp"
#include "privgrad/train/process_group.hpp"
#include "privgrad/train/resumable_run.hpp"
#include "privgrad/train/trainer.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/row_sum.hpp"
#include "random_iterate.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

class Training final : public ResumableRun {
 public:
  Training(const Plan& plan, const RunOptions& options) : ResumableRun(plan, options) {}

 private:
  // ---- beginning and resuming

  void make_parts() override {
    bench_ = make_workbench(plan_, *executor_);
    bench_.load(initial_parameters(plan_, keys_->lasting()));
    gather_processes("");
    make_trainer();
    let_steps_stay();
  }

  std::vector<std::unique_ptr<RunFeature>> make_features() override {
    std::vector<std::unique_ptr<RunFeature>> features;
    if (manifest_.random_iterate)
      features.push_back(std::make_unique<RandomIterate>(plan_, keys_->lasting()));
    if (plan_.report) {
      auto reports = std::make_unique<AccuracyReports>(
          plan_, [&](const Charge& charge) { return release_report(charge); });
      reports_ = reports.get();
      features.push_back(std::move(reports));
    }
    for (auto& feature : ResumableRun::make_features()) features.push_back(std::move(feature));
    return features;
  }

  void make_trainer() {
    trainer_.emplace(plan_, data_.train, keys_->lasting(), *executor_,
                     TrainerSetting{.processes = processes_ ? &*processes_ : nullptr,
                                    .second_look = &second_look_,
                                    .leader = witness()});
  }

  /// Lets steps stay on the device if there is no witness of the releases, once rows and class
  /// weights are final, because the device copies them.
  void let_steps_stay() {
    if (options_.witness == nullptr && is_transformed()) trainer_->let_steps_stay(bench_);
  }

  Workbench& bench() override {
    trainer_->bring_home(bench_);
    return bench_;
  }

  void put_model(std::vector<float> parameters) override {
    trainer_->load(bench_, std::move(parameters));
  }

  /// \param state  the trainers' state from which to resume; "" if the run begins.
  /// \throws ConfigError if the steps cannot be shared, or a process differs from this one.
  void gather_processes(std::string_view state) {
    if (options_.cluster == nullptr) return;
    if (const std::string why = why_not(Engine::processes, plan_); !why.empty())
      throw ConfigError(why);
    processes_.emplace(*options_.cluster, plan_, *bench_.program);
    share_plan(*options_.cluster, plan_, options_);
    processes_->join(learnt_text(), common_ground(data_), state);
    output_.share_work_with(*processes_);
  }

  void statistics_are_released() override {
    bench_.weigh_classes(class_weights_of(plan_, result_.counts), plan_, *executor_);
    let_steps_stay();
    if (processes_) processes_->teach(learnt_text(), common_ground(data_));
  }

  std::filesystem::path ledger_file() const { return options_.directory / "ledger.jsonl"; }

  void open_records() override {
    if (manifest_.noise_off) return;
    trainer_->open_ledger(ledger_file(), facts_for_ledger());
    output_.ledgers_are_open({{"ledger.jsonl", ledger()->first_hash()}});
  }

  std::uint64_t receipts_to_take_up() const override { return trainer_->receipts_to_take_up(); }

  void reopen_records(bool may_repeat) override {
    if (manifest_.noise_off) return;
    trainer_->reopen_ledger(ledger_file(), facts_for_ledger(), may_repeat);
    output_.ledgers_are_open({{"ledger.jsonl", ledger()->first_hash()}});
  }

  Ledger* ledger_of_statistics() override { return trainer_->ledger(); }

  bool records_are_behind() const override { return ledger() != nullptr && ledger()->is_behind(); }

  void save_parts(StateWriter& out) override {
    out.put(parameters());
    trainer_->save(out, Trainer::Between::steps);
  }

  void restore_parts(StateReader& in) override {
    if (result_.steps > plan_.steps()) in.fail("it is of more steps than were planned");
    std::vector<float> parameters;
    in.get(parameters);
    if (parameters.size() != plan_.parameters) in.fail("its model has another size");
    bench_ = make_workbench(plan_, *executor_);
    bench_.weigh_classes(class_weights_of(plan_, result_.counts), plan_, *executor_);
    bench_.load(std::move(parameters));
    gather_processes(in.rest());
    make_trainer();
    trainer_->restore(in, Trainer::Between::steps);
    let_steps_stay();
  }

  std::optional<Event> charged() override {
    const std::size_t reports =
        plan_.report ? plan_.report->charges(plan_.affordable_steps).size() : 0;
    const std::size_t others = charges_of(plan_.statistics).size() + reports;
    // The cost of a part of the plan's charges is unknown, as for steps that share noise.
    if (plan_.correlated || plan_.beside.size() > others) return std::nullopt;
    if (ledger() == nullptr) return Event::nothing();
    std::vector<Event> costs;
    if (const AdaptiveNoise* noise = trainer_->adaptive_noise()) {
      const NoiseRecord record = noise->record();
      for (const std::vector<Charge>& part : {record.steps, record.checks}) {
        for (const Charge& charge : part) costs.push_back(charge.cost);
      }
      return compose_runs(costs);
    }
    const std::uint64_t steps = steps_paid();
    // The charges of reports come last, and are all equal.
    for (const Charge& charge : std::span(plan_.beside).first(ledger()->releases() - steps))
      costs.push_back(charge.cost);
    for (const Charge& charge : std::span(plan_.charges).first(steps)) costs.push_back(charge.cost);
    return compose_runs(costs);
  }

  /// The number of paid releases besides the steps, once all statistics were paid.
  std::uint64_t beside_paid() const {
    return charges_of(plan_.statistics).size() + (reports_ != nullptr ? reports_->made() : 0);
  }

  /// The number of steps among the ledger's releases.
  std::uint64_t steps_paid() const {
    return ledger()->releases() - std::min(beside_paid(), ledger()->releases());
  }

  /// Settles the reservation, unless the run may be resumed. If the account cannot be written, the
  /// run still reports its own failure, and the reservation stays.
  void settle_after_failure() noexcept override {
    if (!reservation_ || checkpoints_) return;
    try {
      reservation_->settle(charged(), "failed");
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
  }

  void dismiss() override {
    if (processes_) processes_->dismiss();
  }

  // ---- the steps

  std::uint64_t made() const override { return result_.steps; }
  std::uint64_t planned() const override { return plan_.steps(); }
  const Ledger* ledger() const override { return trainer_ ? trainer_->ledger() : nullptr; }

  bool make_step() override {
    const std::uint64_t step = result_.steps;
    if (keys_->ratchets()) trainer_->use_key_of_step(keys_->of_step());
    // Pays for the measurement that chooses the step's noise, if one is due, and for the step.
    const bool paid = trainer_->choose_noise(step, bench_, data_.test) && trainer_->pay_for(step);
    result_.epsilon = spent();
    if (!paid) {
      result_.status = RunStatus::budget_exhausted;
      return false;
    }
    if (!trainer_->take_step(step, bench_)) {
      result_.status = RunStatus::diverged;
      return false;
    }
    result_.steps = step + 1;
    return true;
  }

  std::optional<ReportedAccuracy> release_report(const Charge& charge) {
    bench();  // fetches the parameters to evaluate, which were checked and may be published
    const auto made = release_accuracy(
        plan_, charge, divisor_of(plan_, result_.counts), [&] { return halves(); },
        bench_.parameters, keys_->of_step().derive(kReportPurpose), trainer_->ledger(), witness(),
        *executor_);
    result_.epsilon = spent();
    return made;
  }

  /// Each training row's contribution to a report of the model on the bench.
  std::vector<float> halves() {
    if (processes_)
      return processes_->halves(*bench_.program, bench_.parameters, data_.train, *executor_);
    return correct_halves(*bench_.program, data_.train, all_rows(data_.train.rows()), *executor_);
  }

  // ---- the output

  MetricsLine metrics_facts() override {
    MetricsLine facts;
    facts.clip_norm = trainer_->clip_norm();
    // With a released count the clipped share is charged and may be shown; otherwise it is private.
    if (plan_.releases_count()) facts.clipped_fraction = trainer_->clipped_fraction();
    if (const AdaptiveNoise* noise = trainer_->adaptive_noise())
      facts.noise_multiplier = noise->noise_multiplier();
    return facts;
  }

  Summary summary_facts() override {
    if (reports_ != nullptr && reports_->kept())
      show("train accuracy", parameters(), Json(reports_->kept()->value).dump());
    Summary facts;
    facts.clip_norm = trainer_->clip_norm();
    facts.checks = facts_of(trainer_->checks(), manifest_.mode);
    facts.reported = reported_facts(plan_, result_.counts);
    ChargedSteps& paid = result_.paid;
    if (ledger() != nullptr) {
      paid.charged = paid.accounted = steps_paid();
      paid.beside = beside_paid();
    }
    if (plan_.noise_adapts) {
      record_noise();
      facts.epsilon_spent = result_.noise->spent_epsilon;
      facts.adaptive_noise = facts_of(*plan_.noise_adapts, &*result_.noise);
    } else if (is_accounted_in_full(plan_, result_.status) && ledger() != nullptr) {
      // Releases decide which step is the last, so the proof covers all planned steps.
      paid.accounted = plan_.affordable_steps;
      paid.beside.reset();
      result_.epsilon = of_all_steps(plan_);
    }
    return facts;
  }

  /// Records adaptive noise. The guarantee is the budget, however much of it was spent.
  void record_noise() {
    NoiseRecord record = trainer_->adaptive_noise()->record();
    record.spent_epsilon = ledger()->spent().value;
    result_.paid.charged = result_.paid.accounted = record.steps.size();
    result_.noise = std::move(record);
    result_.epsilon = plan_.epsilon();
  }

  void close_ledgers(const Json& files) override {
    if (Ledger* own = trainer_->ledger())
      own->close(std::string(to_text(result_.status)), result_.steps, files);
  }

  // the cluster's other processes; nothing without a cluster
  std::optional<ProcessGroup> processes_;
  Workbench bench_;
  std::optional<Trainer> trainer_;      // destroyed before bench_, which its steps may use
  AccuracyReports* reports_ = nullptr;  // if the manifest requests them; one of the features
};

}  // namespace

bool has_finite_losses(const Metrics& metrics) {
  return std::isfinite(metrics.train_loss.value_or(0.0)) &&
         std::isfinite(metrics.test_loss.value_or(0.0));
}

RunResult central_run(const Plan& plan, const RunOptions& options) {
  return Training(plan, options).run();
}

}  // namespace privgrad::core
