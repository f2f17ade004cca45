#include "privgrad/pipeline/run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "account_plan.hpp"
#include "checkpoints.hpp"
#include "federated_run.hpp"
#include "moving_average.hpp"
#include "privgrad/pipeline/executor.hpp"
#include "privgrad/pipeline/plan_json.hpp"
#include "privgrad/pipeline/schedule_record.hpp"
#include "privgrad/pipeline/trainer.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/run_keys.hpp"
#include "privgrad/trust/sha256.hpp"
#include "run_output.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

/// The hash of parameters, and of what is shown with them.
std::string hash_of_shown(const std::vector<float>& parameters, const std::string& more) {
  Sha256 hash;
  hash.add(more);
  hash.add(std::span(reinterpret_cast<const std::uint8_t*>(parameters.data()),
                     parameters.size() * sizeof(float)));
  return hash.hex();
}

/// A text of a checkpoint that goes into what the run leaves, or names a file.
std::string plain_text(StateReader& in) {
  constexpr std::size_t kLongest = 64;
  std::string text = in.bytes();
  const bool is_plain = text.size() <= kLongest &&
                        std::all_of(text.begin(), text.end(),
                                    [](char c) { return c >= ' ' && c <= '~' && c != '/'; });
  if (!is_plain) in.fail("one of its texts is of no run");
  return text;
}

class Training {
 public:
  Training(const Plan& plan, const RunOptions& options)
      : plan_(plan),
        manifest_(*plan.manifest),
        options_(options),
        output_(plan, options),
        executor_(make_executor(options.threads)) {}

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
    if (!result_.can_be_resumed) {
      if (reservation_) reservation_->settle(charged(), std::string(to_text(result_.status)));
      if (checkpoints_) checkpoints_->erase(options_.directory);
    }
    return std::move(result_);
  }

 private:
  // ---- where it begins, or goes on

  void begin() {
    const DataCommitment data = read_committed_data(plan_, options_, data_);
    const bool leaves_checkpoints = wants_checkpoints();
    start_keys(leaves_checkpoints, data);
    trainer_.emplace(plan_, data_.train, std::nullopt, keys_->lasting(), *executor_);
    bench_ = make_workbench(plan_, *executor_);
    bench_.load(initial_parameters(plan_, keys_->lasting()));
    if (manifest_.ema_decay) average_.emplace(*manifest_.ema_decay, bench_.parameters);
    chosen_ = step_of_output();
    output_.open(data);
    data_commitment_of_ledger_ = data.value.value_or("");
    if (leaves_checkpoints) begin_checkpoints();
    try {
      if (!manifest_.noise_off) open_ledger();
    } catch (...) {
      if (checkpoints_) checkpoints_->erase(options_.directory);
      throw;
    }
    first_checkpoint();
  }

  /// Before the first charge, so that a run can be resumed wherever it is killed.
  void first_checkpoint() {
    if (!checkpoints_) return;
    try {
      save(Stop::none);
    } catch (const IoError& problem) {
      checkpoints_->erase(options_.directory);
      checkpoints_.reset();
      if (manifest_.checkpoint.is_given) throw;
      result_.no_checkpoints = problem.what();
    }
  }

  std::filesystem::path ledger_file() const { return options_.directory / "ledger.jsonl"; }

  Json facts_for_ledger() const {
    Json facts = output_.ledger_facts();
    if (reservation_) facts["account"] = reservation_->facts();
    return facts;
  }

  void open_ledger() {
    trainer_->open_ledger(ledger_file(), facts_for_ledger());
    output_.ledgers_are_open({{"ledger.jsonl", ledger()->first_hash()}});
  }

  /// \param again  whose receipts in hand may be used only if nothing was made behind the checkpoint,
  ///   or if what is made again is the same.
  void reopen_ledger(const LedgerReopening& again, bool was_orderly) {
    if (!again.may_repeat && !was_orderly && trainer_->receipts_to_take_up() > 0) {
      throw PrivacyError(
          options_.directory.string() +
          ": the run was killed, and its steps cannot be made again with the same bits "
          "(floating_point is unaccounted): to make those that it had paid for would be a second "
          "release that the budget does not pay for");
    }
    trainer_->reopen_ledger(ledger_file(), facts_for_ledger(), again);
    output_.ledgers_are_open({{"ledger.jsonl", ledger()->first_hash()}});
    // From here on steps are made behind it.
    if (!again.may_repeat) save(Stop::none);
  }

  double seconds() const {
    if (!began_) return earlier_seconds_;
    return earlier_seconds_ +
           std::chrono::duration<double>(std::chrono::steady_clock::now() - *began_).count();
  }

  void train_and_report() {
    began_ = std::chrono::steady_clock::now();
    train();
    result_.seconds = seconds();
    if (result_.can_be_resumed) return stop_for_later();
    close();
  }

  /// The directory stays as it is: what a resumed run leaves is what it would have left at once.
  void stop_for_later() {
    save(Stop::orderly);
    result_.metrics = output_.last_metrics();
    result_.summary = {{"status", to_text(result_.status)},
                       {"name", manifest_.name},
                       {"steps", result_.steps},
                       {"planned_steps", plan_.steps()},
                       {"epsilon", json_number(result_.epsilon.value)},
                       {"delta", manifest_.target_delta},
                       {"can_be_resumed", true},
                       {"run_dir", options_.directory.string()}};
  }

  /// \throws ManifestError if checkpoints were asked for and cannot be made.
  bool wants_checkpoints() {
    if (manifest_.checkpoint.is_off) return false;
    const std::string why = why_no_checkpoints(plan_, options_.state);
    if (why.empty()) return true;
    if (manifest_.checkpoint.is_given)
      throw error_at(manifest_, "checkpoint", "is not possible: " + why);
    result_.no_checkpoints = why;
    return false;
  }

  /// Where they are a default, a folder that cannot be written does not keep anybody from training.
  void begin_checkpoints() {
    try {
      checkpoints_.emplace(Checkpoints::begin(plan_, options_));
    } catch (const IoError& problem) {
      if (manifest_.checkpoint.is_given) throw;
      result_.no_checkpoints = problem.what();
    }
  }

  void start_keys(bool leaves_checkpoints, const DataCommitment& data) {
    const RandomKey key = run_key(manifest_);
    // Studies pair arms by equal noise, and a seed is no secret: its addresses stay.
    keys_ = leaves_checkpoints && !manifest_.seed
                ? RunKeys::chain(key, Checkpoints::bound_to(plan_, options_.lock, data.value))
                : RunKeys::constant(key);
  }

  enum class Stop : std::uint64_t { none = 0, orderly };

  /// Behind the last step that was made.
  /// \param stop  whether the process ends here, so that nothing is made behind it.
  void save(Stop stop) {
    StateWriter out;
    out.word(static_cast<std::uint64_t>(stop));
    out.bytes(reservation_ ? reservation_->id() : "");
    out.bytes(output_.date());
    out.bytes(data_commitment_of_ledger_);
    out.bytes(transformed_hash(plan_, data_.train));
    const auto [bytes, hash] = output_.metrics_position();
    out.word(bytes);
    out.bytes(hash);
    const LedgerPosition paid = ledger() != nullptr ? ledger()->position() : LedgerPosition{};
    out.word(paid.lines);
    out.word(paid.bytes);
    out.bytes(paid.last_hash);
    out.word(checkpoints_->shown());
    out.word(result_.steps);
    out.real(seconds());
    out.word(measured_at_ ? 1 : 0);
    out.word(measured_at_.value_or(0));
    out.word(chosen_);
    out.array(kept_);
    out.array(bench_.parameters);
    if (average_) average_->save(out);
    keys_->save(out);
    trainer_->save(out);
    checkpoints_->write(plan_, options_, out.text());
  }

  void take_up() {
    checkpoints_.emplace(Checkpoints::take_up(plan_, options_));
    const std::string content = checkpoints_->content(plan_, options_);
    StateReader in(content, options_.directory.string());
    const bool was_orderly = in.word() == static_cast<std::uint64_t>(Stop::orderly);
    if (const std::string id = plain_text(in); manifest_.account) reservation_.emplace(plan_, id);
    output_.set_date(plain_text(in));
    const DataCommitment data = read_data_again(plain_text(in));
    if (in.bytes() != transformed_hash(plan_, data_.train)) {
      throw PrivacyError(
          options_.directory.string() +
          ": the transforms make other examples of the data than when the run began");
    }
    const std::uint64_t metrics = in.word();
    output_.reopen(data, metrics, in.bytes());
    LedgerReopening again;
    again.at.lines = in.word();
    again.at.bytes = in.word();
    again.at.last_hash = in.bytes();
    again.may_repeat = steps_are_repeatable(plan_);
    checkpoints_->set_shown(in.word());
    result_.steps = in.word();
    if (result_.steps > plan_.steps()) in.fail("it is of more steps than were planned");
    earlier_seconds_ = in.real();
    const bool was_measured = in.word() == 1;
    measured_at_ = in.word();
    if (!was_measured) measured_at_.reset();
    chosen_ = in.word();
    kept_ = in.array<float>();
    std::vector<float> parameters = in.array<float>(plan_.parameters);
    if (manifest_.ema_decay) {
      average_.emplace(*manifest_.ema_decay, parameters);
      average_->restore(in);
    }
    const std::optional<RandomKey> constant =
        manifest_.seed ? std::optional(run_key(manifest_)) : std::nullopt;
    keys_ =
        RunKeys::restored(in, constant, Checkpoints::bound_to(plan_, options_.lock, data.value));
    trainer_.emplace(plan_, data_.train, std::nullopt, keys_->lasting(), *executor_);
    trainer_->restore(in);
    in.end();
    bench_ = make_workbench(plan_, *executor_);
    bench_.load(std::move(parameters));
    if (measured_at_ == result_.steps) output_.measure_again(data_, bench_, *executor_);
    if (!manifest_.noise_off) reopen_ledger(again, was_orderly);
    result_.resumed_at = result_.steps;
  }

  DataCommitment read_data_again(std::string committed) {
    data_ = read_rows(manifest_, *plan_.setting);
    data_commitment_of_ledger_ = std::move(committed);
    DataCommitment data;
    if (!manifest_.noise_off) {
      const auto value = data_commitment_of_ledger_.empty()
                             ? std::nullopt
                             : std::optional(data_commitment_of_ledger_);
      data = commit_again(manifest_, data_.train, options_.state, value);
    }
    apply_transforms(manifest_, *plan_.setting, data_, options_.threads, options_.features);
    return data;
  }
  /// What was paid for, as one event; nothing where that is not a part of the plan's cost that stands
  /// by itself: steps that share noise.
  std::optional<Event> charged() {
    if (plan_.correlated || !plan_.beside.empty()) return std::nullopt;
    if (ledger() == nullptr) return Event::nothing();
    std::vector<Event> costs;
    if (const AdaptiveNoise* noise = trainer_->adaptive_noise()) {
      const NoiseRecord record = noise->record();
      for (const std::vector<Charge>& part : {record.steps, record.checks}) {
        for (const Charge& charge : part) costs.push_back(charge.cost);
      }
      return compose_runs(costs);
    }
    for (const Charge& charge : std::span(plan_.charges).first(ledger()->releases()))
      costs.push_back(charge.cost);
    return compose_runs(costs);
  }

  /// A run that fails says why; that its account cannot be written is no better reason, and its
  /// reservation then stays. So does that of a run that may be resumed.
  void settle_after_failure() noexcept {
    if (!reservation_ || checkpoints_) return;
    try {
      reservation_->settle(charged(), "failed");
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
  }

  // ---- the loop

  /// Drawn before the first step, so it says nothing about the data.
  std::uint64_t step_of_output() const {
    const std::uint64_t steps = std::max<std::uint64_t>(1, plan_.affordable_steps);
    return make_random_source(keys_->lasting().derive("output"))->stream(0)->uniform_below(steps);
  }

  bool is_stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  /// Whether all is made again that the run had shown, or been charged for, when it was cut off.
  bool has_caught_up() const {
    return !output_.is_behind() && !checkpoints_->is_behind() &&
           (trainer_->ledger() == nullptr || !trainer_->ledger()->is_behind());
  }

  void train() {
    result_.status = RunStatus::completed;
    result_.epsilon = ledger() != nullptr ? ledger()->spent() : plan_.epsilon();
    const bool begins = result_.steps == 0 && !measured_at_;
    if (begins && has_prediction(plan_)) report_progress();  // what the prediction is relative to
    for (std::uint64_t step = result_.steps; step < plan_.steps(); ++step) {
      if (options_.finish && has_caught_up()) {
        result_.status = RunStatus::interrupted;
        break;
      }
      if (is_stopped()) {
        result_.status = RunStatus::interrupted;
        result_.can_be_resumed = checkpoints_.has_value();
        if (result_.can_be_resumed) return;
        break;
      }
      if (!make_step(step)) break;
    }
    if (!kept_.empty()) {
      bench_.load(std::exchange(kept_, {}));
      has_random_iterate_ = true;
      measured_at_.reset();
    }
    if (manifest_.keeps_average) {
      if (measured_at_ != result_.steps) report_progress();  // the last parameters, beside it
      bench_.load(average_->parameters());
      measured_at_.reset();
    }
    if (measured_at_ != result_.steps) report_progress();
    result_.status = output_.status_of_model(result_.status);
  }

  /// \returns false if it was the last one, or could not be made.
  bool make_step(std::uint64_t step) {
    if (manifest_.random_iterate && step == chosen_) kept_ = bench_.parameters;
    if (keys_->ratchets()) trainer_->use_key_of_step(keys_->of_step());
    if (!pay_for(step)) {
      result_.status = RunStatus::budget_exhausted;
      return false;
    }
    if (!trainer_->take_step(step, bench_)) {
      result_.status = RunStatus::diverged;
      return false;
    }
    if (average_) average_->add(bench_.parameters);
    result_.steps = step + 1;
    last_shown_.clear();
    if (result_.steps % plan_.evaluate_every() == 0 || result_.steps == plan_.steps())
      report_progress();
    keys_->next(last_shown_);
    if (checkpoints_ && result_.steps < plan_.steps() && checkpoints_->is_due(result_.steps))
      save(Stop::none);
    return true;
  }

  /// \returns whether the step is paid for, and what chooses its noise. Nothing has been released
  ///   when it is not.
  bool pay_for(std::uint64_t step) {
    const bool paid = trainer_->choose_noise(step, bench_, data_.test) && trainer_->pay_for(step);
    if (ledger() != nullptr) result_.epsilon = ledger()->spent();
    return paid;
  }

  void report_progress() {
    Json more{{"clip_norm", trainer_->clip_norm()}};
    // Released with the gradients, and charged; nobody else knows how much was clipped.
    if (plan_.clip_norm_adapts())
      more["clipped_fraction"] = optional_json(trainer_->clipped_fraction());
    if (const AdaptiveNoise* noise = trainer_->adaptive_noise())
      more["noise_multiplier"] = noise->noise_multiplier();
    if (average_) more["ema"] = to_json(metrics_of_average());
    show("step " + std::to_string(result_.steps), more.dump());
    output_.report({.step = result_.steps,
                    .steps = plan_.steps(),
                    .epsilon = result_.epsilon.value,
                    .metrics = {}},
                   more, data_, bench_, *executor_);
    measured_at_ = result_.steps;
  }

  Metrics metrics_of_average() {
    std::vector<float> last = bench_.parameters;
    bench_.load(average_->parameters());
    const Metrics metrics = output_.measure(data_, bench_, *executor_);
    bench_.load(std::move(last));
    return metrics;
  }

  std::string_view kind_of_output() const {
    if (manifest_.keeps_average) return "ema";
    return has_random_iterate_ ? "random_iterate" : "last";
  }

  /// Before anything of the model is measured or written where others see it.
  void show(const std::string& what, const std::string& more) {
    if (!checkpoints_) return;
    last_shown_ = hash_of_shown(bench_.parameters, more);
    checkpoints_->bind(what, last_shown_);
  }

  void close() {
    show("model", "");
    Json more{{"clip_norm", trainer_->clip_norm()},
              {"output", kind_of_output()},
              {"checks", checks_json(trainer_->checks(), manifest_.mode)}};
    if (!result_.no_checkpoints.empty()) more["no_checkpoints"] = result_.no_checkpoints;
    more["test_evaluation"] = output_.test_evaluation(data_, bench_, *executor_);
    if (average_) more["ema_decay"] = *manifest_.ema_decay;
    ChargedSteps& paid = result_.paid;
    if (ledger() != nullptr) paid.charged = paid.accounted = ledger()->releases();
    if (plan_.noise_adapts) {
      record_noise();
      more["epsilon_spent"] = result_.noise->spent_epsilon;
      more["adaptive_noise"] = to_json(*plan_.noise_adapts, &*result_.noise);
    } else if (result_.status == RunStatus::diverged && ledger() != nullptr) {
      // Releases decided that this was the last step: what is proved is about all of them.
      paid.accounted = plan_.affordable_steps;
      result_.epsilon = of_all_steps(plan_);
    }
    output_.close(
        result_, bench_.parameters, data_.preprocessing, more,
        [&](const Json& files) {
          if (ledger() == nullptr) return;
          ledger()->close(std::string(to_text(result_.status)), result_.steps, files);
        },
        [&](const std::string& text) {
          return checkpoints_ ? checkpoints_->settle_summary(text) : text;
        });
  }

  /// Of noise that adapts: the guarantee is the budget, whatever was spent within it.
  void record_noise() {
    NoiseRecord record = trainer_->adaptive_noise()->record();
    record.spent_epsilon = ledger()->spent().value;
    result_.paid.charged = result_.paid.accounted = record.steps.size();
    result_.noise = std::move(record);
    result_.epsilon = plan_.epsilon();
  }

  Ledger* ledger() { return trainer_ ? trainer_->ledger() : nullptr; }

  const Plan& plan_;
  const Manifest& manifest_;
  const RunOptions& options_;
  RunOutput output_;
  std::optional<Reservation> reservation_;
  std::unique_ptr<Executor> executor_;
  RunData data_;
  std::optional<RunKeys> keys_;
  std::optional<Trainer> trainer_;
  Workbench bench_;
  std::optional<MovingAverage> average_;  // if the manifest asks for one
  std::optional<Checkpoints> checkpoints_;
  std::string data_commitment_of_ledger_;  // "": there is none
  std::string last_shown_;                 // the hash of what was shown of the last step
  std::optional<std::chrono::steady_clock::time_point> began_;
  double earlier_seconds_ = 0.0;
  std::uint64_t chosen_ = 0;         // the step whose model is kept, if one is
  std::vector<float> kept_;          // that model
  bool has_random_iterate_ = false;  // a run that is stopped before it keeps the last one
  std::optional<std::uint64_t> measured_at_;
  RunResult result_;
};

}  // namespace

nlohmann::json to_json(const Metrics& metrics) {
  Json json{{"train_loss", optional_json(metrics.train_loss)},
            {"train_accuracy", optional_json(metrics.train_accuracy)},
            {"test_loss", optional_json(metrics.test_loss)},
            {"test_accuracy", optional_json(metrics.test_accuracy)}};
  if (metrics.gradient_norm) json["gradient_norm"] = json_number(*metrics.gradient_norm);
  return json;
}

bool has_finite_losses(const Metrics& metrics) {
  return std::isfinite(metrics.train_loss.value_or(0.0)) &&
         std::isfinite(metrics.test_loss.value_or(0.0));
}

RunResult run(const Plan& plan, const RunOptions& options) {
  if (plan.federated) {
    const std::string why = why_no_checkpoints(plan, options.state);
    const CheckpointWish& wish = plan.manifest->checkpoint;
    if (options.resume) throw ConfigError(options.directory.string() + ": " + why);
    if (wish.is_given && !wish.is_off)
      throw error_at(*plan.manifest, "checkpoint", "is not possible: " + why);
    RunResult result = federated_run(plan, options);
    if (!wish.is_off) result.no_checkpoints = why;
    return result;
  }
  return Training(plan, options).run();
}

}  // namespace privgrad::core
