#include "privgrad/train/run.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "privgrad/plan/engines.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/statement/schedule_record.hpp"
#include "privgrad/train/accuracy_report.hpp"
#include "privgrad/train/moving_average.hpp"
#include "privgrad/train/process_group.hpp"
#include "privgrad/train/resumable_run.hpp"
#include "privgrad/train/trainer.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/row_sum.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

class Training final : ResumableRun {
 public:
  Training(const Plan& plan, const RunOptions& options) : ResumableRun(plan, options) {}

  RunResult run() {
    if (options_.resume) {
      take_up();
    } else if (manifest_.account) {
      reservation_.emplace(plan_, options_.directory);
    }
    try {
      if (!options_.resume) begin();
      train_and_report();
    } catch (...) {
      settle_after_failure();
      throw;
    }
    if (reservation_ && !result_.can_be_resumed)
      reservation_->settle(charged(), std::string(to_text(result_.status)));
    if (processes_) processes_->dismiss();
    erase_checkpoints();
    return std::move(result_);
  }

 private:
  // ---- beginning and resuming

  void make_parts() override {
    bench_ = make_workbench(plan_, *executor_);
    bench_.load(initial_parameters(plan_, keys_->lasting()));
    gather_processes("");
    make_trainer();
    let_steps_stay();
    if (manifest_.ema_decay) average_.emplace(*manifest_.ema_decay, bench_.parameters);
    chosen_ = step_of_output();
  }

  void make_trainer() {
    trainer_.emplace(plan_, data_.train, std::nullopt, keys_->lasting(), *executor_,
                     processes_ ? &*processes_ : nullptr);
    trainer_->look_again_by(second_look_);
  }

  /// Lets steps stay on the device if there is no witness of the releases, once rows and class
  /// weights are final, because the device copies them.
  void let_steps_stay() {
    if (options_.witness == nullptr && is_transformed()) trainer_->let_steps_stay(bench_);
  }

  /// The parameters of the model, fetched from the device if necessary.
  const std::vector<float>& parameters() {
    trainer_->bring_home(bench_);
    return bench_.parameters;
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
    trainer_->lead_by(options_.witness);
    output_.ledgers_are_open({{"ledger.jsonl", ledger()->first_hash()}});
  }

  std::uint64_t receipts_to_take_up() const override { return trainer_->receipts_to_take_up(); }

  void reopen_records(bool may_repeat) override {
    if (measured_at_ == result_.steps) output_.measure_again(data_, bench_, *executor_);
    if (manifest_.noise_off) return;
    trainer_->reopen_ledger(ledger_file(), facts_for_ledger(), may_repeat);
    output_.ledgers_are_open({{"ledger.jsonl", ledger()->first_hash()}});
  }

  Ledger* ledger_of_statistics() override { return ledger(); }

  bool records_are_behind() const override {
    return trainer_->ledger() != nullptr && trainer_->ledger()->is_behind();
  }

  void save_parts(StateWriter& out) override {
    out.put(chosen_, kept_, parameters(), reported_.steps, reported_.between);
    if (average_) average_->save(out);
    trainer_->save(out, Trainer::Between::steps);
  }

  void restore_parts(StateReader& in) override {
    if (result_.steps > plan_.steps()) in.fail("it is of more steps than were planned");
    std::vector<float> parameters;
    in.get(chosen_, kept_, parameters, reported_.steps, reported_.between);
    if (parameters.size() != plan_.parameters || reported_.between.size() != reported_.steps.size())
      in.fail("its model, or its measurements, have another size");
    if (manifest_.ema_decay) {
      average_.emplace(*manifest_.ema_decay, parameters);
      average_->restore(in);
    }
    bench_ = make_workbench(plan_, *executor_);
    bench_.weigh_classes(class_weights_of(plan_, result_.counts), plan_, *executor_);
    bench_.load(std::move(parameters));
    gather_processes(in.rest());
    make_trainer();
    trainer_->restore(in, Trainer::Between::steps);
    let_steps_stay();
  }

  /// All paid charges as one event; nothing if the cost of a part of the plan's charges is unknown,
  /// as for steps that share noise.
  std::optional<Event> charged() {
    const std::size_t reports =
        plan_.report ? plan_.report->charges(plan_.affordable_steps).size() : 0;
    const std::size_t others = charges_of(plan_.statistics).size() + reports;
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
    return charges_of(plan_.statistics).size() + reported_.steps.size() + (has_reported_ ? 1 : 0);
  }

  /// The number of steps among the ledger's releases.
  std::uint64_t steps_paid() {
    return ledger()->releases() - std::min(beside_paid(), ledger()->releases());
  }

  /// Settles the reservation of a failed run, unless it may be resumed. If the account cannot be
  /// written, the run still reports its own failure, and the reservation stays.
  void settle_after_failure() noexcept {
    if (!reservation_ || checkpoints_) return;
    try {
      reservation_->settle(charged(), "failed");
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
  }

  // ---- the loop

  /// Draws the step whose model is kept, before the first step, so the choice reveals nothing.
  std::uint64_t step_of_output() const {
    const std::uint64_t steps = std::max<std::uint64_t>(1, plan_.affordable_steps);
    return make_random_source(keys_->lasting().derive("output"))->stream(0)->uniform_below(steps);
  }

  void train() override {
    result_.status = RunStatus::completed;
    result_.epsilon = ledger() != nullptr ? ledger()->spent() : plan_.epsilon();
    const bool begins = result_.steps == 0 && !measured_at_;
    // predictions are relative to this measurement
    if (begins && has_prediction(plan_)) report_progress();
    for (std::uint64_t step = result_.steps; step < plan_.steps(); ++step) {
      if (plan_.report && plan_.report->ends_run(reported_.between)) {
        result_.status = RunStatus::stopped_early;
        break;
      }
      if (ends_here()) {
        if (result_.can_be_resumed) return;
        break;
      }
      if (!make_step(step)) break;
    }
    if (!kept_.empty()) {
      trainer_->load(bench_, std::exchange(kept_, {}));
      has_random_iterate_ = true;
      measured_at_.reset();
    }
    if (manifest_.keeps_average) {
      if (measured_at_ != result_.steps) report_progress();  // also shows the last parameters
      trainer_->load(bench_, average_->parameters());
      measured_at_.reset();
    }
    if (measured_at_ != result_.steps) report_progress();
    result_.status = output_.status_of_model(result_.status);
  }

  /// \returns false if this was the last step, or if the step could not be made.
  bool make_step(std::uint64_t step) {
    if (manifest_.random_iterate && step == chosen_) kept_ = parameters();
    if (keys_->ratchets()) trainer_->use_key_of_step(keys_->of_step());
    // Budget that remains after the planned steps is reserved for the report.
    if ((plan_.report && step >= plan_.affordable_steps) || !pay_for(step)) {
      result_.status = RunStatus::budget_exhausted;
      return false;
    }
    if (!trainer_->take_step(step, bench_)) {
      result_.status = RunStatus::diverged;
      return false;
    }
    if (average_) average_->add(parameters());
    result_.steps = step + 1;
    last_shown_.clear();
    const bool is_reported = report_on_the_way();
    if (is_reported || result_.steps % plan_.evaluate_every() == 0 ||
        result_.steps == plan_.steps())
      report_progress();
    keys_->next(last_shown_);
    if (checkpoints_ && result_.steps < plan_.steps() && checkpoints_->is_due(result_.steps))
      save(Stop::none);
    return true;
  }

  /// Releases the accuracy of the model after the last step, if a report is due. Nothing depends on
  /// the accuracy before report_progress() has bound it.
  /// \returns whether a report was due.
  bool report_on_the_way() {
    if (!plan_.report || !plan_.report->is_due(result_.steps, plan_.affordable_steps)) return false;
    const auto made = release_report(plan_.report->charge_behind(result_.steps));
    // The plan's budget includes all reports; if it is used up here, the next step ends the run.
    if (!made) return false;
    reported_.steps.push_back(result_.steps);
    reported_.between.push_back(made->value);
    return true;
  }

  std::optional<ReportedAccuracy> release_report(const Charge& charge) {
    // fetches the parameters to evaluate, which were checked and may be published
    trainer_->bring_home(bench_);
    const auto made = release_accuracy(
        plan_, charge, divisor_of(plan_, result_.counts), [&] { return halves(); },
        bench_.parameters, keys_->of_step().derive(kReportPurpose), ledger(),
        manifest_.noise_off ? nullptr : options_.witness, *executor_);
    if (ledger() != nullptr) result_.epsilon = ledger()->spent();
    return made;
  }

  /// Each training row's contribution to a report of the model on the bench.
  std::vector<float> halves() {
    if (processes_)
      return processes_->halves(*bench_.program, bench_.parameters, data_.train, *executor_);
    return correct_halves(*bench_.program, data_.train, all_rows(data_.train.rows()), *executor_);
  }

  /// Pays for the measurement that chooses the step's noise, if one is due, and for the step.
  /// \returns whether both are paid for.
  bool pay_for(std::uint64_t step) {
    const bool paid = trainer_->choose_noise(step, bench_, data_.test) && trainer_->pay_for(step);
    if (ledger() != nullptr) result_.epsilon = ledger()->spent();
    return paid;
  }

  void report_progress() {
    Json more{{"clip_norm", trainer_->clip_norm()}};
    // With a released count the clipped share is charged and may be shown; otherwise it is private.
    if (plan_.releases_count())
      more["clipped_fraction"] = optional_json(trainer_->clipped_fraction());
    if (const AdaptiveNoise* noise = trainer_->adaptive_noise())
      more["noise_multiplier"] = noise->noise_multiplier();
    if (average_) more["ema"] = to_json(metrics_of_average());
    if (!reported_.steps.empty() && reported_.steps.back() == result_.steps)
      more["reported_accuracy"] = reported_.between.back();
    show("step " + std::to_string(result_.steps), parameters(), more.dump());
    output_.report({.step = result_.steps,
                    .steps = plan_.steps(),
                    .epsilon = result_.epsilon.value,
                    .metrics = {}},
                   more, data_, bench_, *executor_);
    measured_at_ = result_.steps;
  }

  Metrics metrics_of_average() {
    std::vector<float> last = parameters();
    trainer_->load(bench_, average_->parameters());
    const Metrics metrics = output_.measure(data_, bench_, *executor_);
    trainer_->load(bench_, std::move(last));
    return metrics;
  }

  std::string_view kind_of_output() const {
    if (manifest_.keeps_average) return "ema";
    return has_random_iterate_ ? "random_iterate" : "last";
  }

  /// Reports the accuracy of the kept model, and pays for it here: the steps have left enough
  /// budget. A run that its user ends early has no report: otherwise, copies of its state that end
  /// at different steps would release the accuracies of different models for one charge.
  void report_accuracy() {
    if (!plan_.report || (options_.finish && result_.status == RunStatus::interrupted)) return;
    reported_.kept = release_report(plan_.report->charge());
    has_reported_ = reported_.kept.has_value() && ledger() != nullptr;
    if (reported_.kept) show("train accuracy", parameters(), Json(reported_.kept->value).dump());
  }

  void close() override {
    show("model", parameters(), "");
    report_accuracy();
    Json more{{"clip_norm", trainer_->clip_norm()},
              {"output", kind_of_output()},
              {"checks", checks_json(trainer_->checks(), manifest_.mode)}};
    if (!result_.no_checkpoints.empty()) more["no_checkpoints"] = result_.no_checkpoints;
    more["test_evaluation"] = output_.test_evaluation(data_, bench_, *executor_);
    if (average_) more["ema_decay"] = *manifest_.ema_decay;
    Json reported = to_json(plan_, result_.counts);
    if (plan_.report) reported["train_accuracy"] = to_json(*plan_.report, reported_);
    if (!reported.empty()) more["reported"] = std::move(reported);
    ChargedSteps& paid = result_.paid;
    if (ledger() != nullptr) {
      paid.charged = paid.accounted = steps_paid();
      paid.beside = beside_paid();
    }
    if (plan_.noise_adapts) {
      record_noise();
      more["epsilon_spent"] = result_.noise->spent_epsilon;
      more["adaptive_noise"] = to_json(*plan_.noise_adapts, &*result_.noise);
    } else if (is_accounted_in_full() && ledger() != nullptr) {
      // Releases decide which step is the last, so the proof covers all planned steps.
      paid.accounted = plan_.affordable_steps;
      paid.beside.reset();
      result_.epsilon = of_all_steps(plan_);
    }
    output_.close(
        result_, parameters(), data_.preprocessing, more,
        [&](const Json& files) {
          if (ledger() == nullptr) return;
          ledger()->close(std::string(to_text(result_.status)), result_.steps, files);
        },
        [&](const std::string& text) {
          return checkpoints_ ? checkpoints_->settle_summary(text) : text;
        });
  }

  bool is_accounted_in_full() const { return core::is_accounted_in_full(plan_, result_.status); }

  /// Records adaptive noise. The guarantee is the budget, however much of it was spent.
  void record_noise() {
    NoiseRecord record = trainer_->adaptive_noise()->record();
    record.spent_epsilon = ledger()->spent().value;
    result_.paid.charged = result_.paid.accounted = record.steps.size();
    result_.noise = std::move(record);
    result_.epsilon = plan_.epsilon();
  }

  Ledger* ledger() { return trainer_ ? trainer_->ledger() : nullptr; }

  // the cluster's other processes; nothing without a cluster
  std::optional<ProcessGroup> processes_;
  Workbench bench_;
  std::optional<Trainer> trainer_;        // destroyed before bench_, which its steps may use
  std::optional<MovingAverage> average_;  // if the manifest requests one
  std::uint64_t chosen_ = 0;              // the step whose model is kept by random_iterate
  std::vector<float> kept_;               // the model before step chosen_
  ReportedAccuracies reported_;           // if the manifest requests them
  bool has_reported_ = false;             // whether the report of the kept model was paid for
  // whether the run reached step chosen_; otherwise the last model is kept
  bool has_random_iterate_ = false;
};

}  // namespace

nlohmann::json to_json(const Metrics& metrics) {
  Json json{{"train_loss", optional_json(metrics.train_loss)},
            {"train_accuracy", optional_json(metrics.train_accuracy)},
            {"test_loss", optional_json(metrics.test_loss)},
            {"test_accuracy", optional_json(metrics.test_accuracy)}};
  if (metrics.gradient_norm) json["gradient_norm"] = json_number(*metrics.gradient_norm);
  if (metrics.mean_gradient_norm)
    json["mean_gradient_norm"] = json_number(*metrics.mean_gradient_norm);
  return json;
}

bool has_finite_losses(const Metrics& metrics) {
  return std::isfinite(metrics.train_loss.value_or(0.0)) &&
         std::isfinite(metrics.test_loss.value_or(0.0));
}

RunResult central_run(const Plan& plan, const RunOptions& options) {
  return Training(plan, options).run();
}

}  // namespace privgrad::core
