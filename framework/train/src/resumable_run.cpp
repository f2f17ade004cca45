#include "privgrad/train/resumable_run.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/schedule_record.hpp"
#include "privgrad/train/moving_average.hpp"
#include "privgrad/train/resumed_plan.hpp"
#include "privgrad/train/statistic_releases.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::core {

using Json = nlohmann::json;

namespace {

/// The data of a server whose clients are separate programs: no examples, only the values of
/// transforms that need no rows.
DataCommitment without_rows(const Plan& plan, RunData& data) {
  data.train = Dataset(plan.setting->info.shape, std::vector<float>{}, {});
  apply_transforms(*plan.manifest, *plan.setting, data);
  return {.value = std::nullopt, .why_not = std::string(kCommittedByClients)};
}

/// Reads a text that the run writes to its output or uses as a file name.
std::string plain_text(StateReader& in) {
  constexpr std::size_t kLongest = 64;
  std::string text = in.bytes();
  const bool is_plain = text.size() <= kLongest && std::ranges::all_of(text, [](char c) {
                          return c >= ' ' && c <= '~' && c != '/';
                        });
  if (!is_plain) in.fail("one of its texts is of no run");
  return text;
}

/// \returns the line without its measurements and epsilon.
Json known_unmeasured(const MetricsLine& line) {
  Json json = to_json(line);
  Metrics::members(line,
                   [&](std::string_view name, const auto&) { json.erase(std::string(name)); });
  json.erase("epsilon");
  return json;
}

}  // namespace

ResumableRun::ResumableRun(const Plan& plan, const RunOptions& options)
    : plan_(plan),
      manifest_(*plan.manifest),
      options_(options),
      second_look_(plan),
      output_(plan, options),
      executor_(make_executor(options.threads)) {}

RunResult ResumableRun::run() {
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
  dismiss();
  // Removes the private state, if the run is finished.
  if (checkpoints_ && !result_.can_be_resumed) checkpoints_->erase(options_.directory);
  return std::move(result_);
}

std::vector<std::unique_ptr<RunFeature>> ResumableRun::make_features() {
  std::vector<std::unique_ptr<RunFeature>> features;
  if (const auto decay = manifest_.ema_decay)
    features.push_back(
        std::make_unique<MovingAverage>(*decay, manifest_.keeps_average, plan_.parameters));
  return features;
}

// ---- beginning and resuming

void ResumableRun::begin() {
  const DataCommitment data = options_.clients == nullptr
                                  ? read_committed_data(plan_, options_, data_)
                                  : without_rows(plan_, data_);
  is_transformed_ = plan_.statistics.empty();
  const bool leaves_checkpoints = wants_checkpoints(data);
  bind(data);
  if (leaves_checkpoints) know_rows_made();
  start_keys(leaves_checkpoints);
  make_parts();
  features_ = make_features();
  for (const auto& feature : features_) feature->begin(*this);
  output_.open(data);
  data_commitment_of_ledger_ = data.value.value_or("");
  if (leaves_checkpoints) begin_checkpoints();
  try {
    if (reservation_) reservation_->begin(bound_for_account());
    open_records();
  } catch (...) {
    if (checkpoints_) checkpoints_->erase(options_.directory);
    throw;
  }
  first_checkpoint();
}

/// \throws ManifestError if checkpoints were requested and cannot be made.
bool ResumableRun::wants_checkpoints(const DataCommitment& data) {
  if (manifest_.checkpoint.is_off) return false;
  std::string why = options_.clients == nullptr
                        ? why_no_checkpoints(options_.state)
                        : "its clients are programs of their own, which keep what is theirs";
  // Without a commitment, nothing shows whether a resumed run has the same rows as before.
  if (why.empty() && !manifest_.noise_off && !data.value)
    why = "its training rows are not committed to: " + data.why_not;
  if (why.empty()) return true;
  if (manifest_.checkpoint.is_given)
    throw error_at(manifest_, "checkpoint", "is not possible: " + why);
  result_.no_checkpoints = why;
  return false;
}

void ResumableRun::start_keys(bool leaves_checkpoints) {
  const RandomKey key = run_key(manifest_.seed);
  // With a seed, which is not secret, the key stays the same, so that studies compare arms under
  // the same noise.
  keys_ = leaves_checkpoints && !manifest_.seed ? RunKeys::chain(key, bound_with_rows())
                                                : RunKeys::constant(key);
}

void ResumableRun::bind(const DataCommitment& data) {
  test_rows_ = data.test_rows;
  bound_to_ = Checkpoints::bound_to(plan_, options_.lock, data);
}

std::string ResumableRun::bound_with_rows() const {
  const std::vector<double> weights = class_weights_of(plan_, result_.counts);
  return bound_to_ + "\n" + rows_made_ + (weights.empty() ? "" : "\n" + Json(weights).dump());
}

void ResumableRun::know_rows_made() {
  rows_made_ = is_transformed_ ? transformed_hash(*plan_.setting, data_.train) : "";
}

/// The hash for the account. The account is less private than the run's private folder, so the hash
/// must not confirm guesses about rows.
std::string ResumableRun::bound_for_account() const {
  return keys_->lasting().derive("account\n" + bound_to_).public_hex();
}

/// Makes the folder for checkpoints. If the user has not requested any, a failure does not prevent
/// training.
void ResumableRun::begin_checkpoints() {
  try {
    checkpoints_.emplace(Checkpoints::begin(plan_, options_));
  } catch (const IoError& problem) {
    if (manifest_.checkpoint.is_given) throw;
    result_.no_checkpoints = problem.what();
  }
}

/// The first checkpoint is made before the first charge, so that a run can be resumed wherever it
/// is killed.
void ResumableRun::first_checkpoint() {
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

Json ResumableRun::facts_for_ledger() const {
  Json facts = output_.ledger_facts();
  if (reservation_) facts["account"] = reservation_->facts();
  return facts;
}

/// Makes a checkpoint after the last completed step.
/// \param stop  whether the process ends here, so that it does nothing after the checkpoint.
void ResumableRun::save(Stop stop) {
  StateWriter out;
  out.put(stop, reservation_ ? reservation_->id() : "", output_.date(), data_commitment_of_ledger_,
          test_rows_);
  save_statistics(out);
  out.put(rows_made_, plan_.federated ? hash_of_shards(*plan_.federated) : "");
  output_.metrics_position().save(out);
  out.put(checkpoints_->shown(), result_.steps, seconds(), measured_at_);
  keys_->save(out);
  for (const auto& feature : features_) feature->save(out);
  save_parts(out);
  checkpoints_->write(plan_, options_, out.text());
}

/// \throws PrivacyError if the run cannot continue as it would have without the interruption.
void ResumableRun::take_up() {
  checkpoints_.emplace(Checkpoints::take_up(plan_, options_));
  const std::string content = checkpoints_->content(plan_, options_);
  StateReader in(content, options_.directory.string());
  const auto refuse = [&](const char* what) {
    throw PrivacyError(options_.directory.string() + ": " + what + " than when the run began");
  };
  const bool was_orderly = in.word() == static_cast<std::uint64_t>(Stop::orderly);
  if (const std::string id = plain_text(in); manifest_.account) reservation_.emplace(plan_, id);
  output_.set_date(plain_text(in));
  const DataCommitment data = read_data_again(plain_text(in));
  if (in.bytes() != data.test_rows) refuse("the test rows, which are measured, are others");
  take_up_statistics(in);
  bind(data);
  know_rows_made();
  if (in.bytes() != rows_made_) refuse("the transforms make other examples of the data");
  if (in.bytes() != (plan_.federated ? hash_of_shards(*plan_.federated) : ""))
    refuse("federated.partition gives the clients other examples");
  with_own_files([&] { output_.reopen(data, FilePosition::restored(in)); });
  checkpoints_->set_shown(in.word());
  in.get(result_.steps, earlier_seconds_, measured_at_);
  const std::optional<RandomKey> constant =
      manifest_.seed ? std::optional(run_key(manifest_.seed)) : std::nullopt;
  keys_ = RunKeys::restored(in, constant, bound_with_rows());
  features_ = make_features();
  for (const auto& feature : features_) feature->restore(in);
  restore_parts(in);
  in.end();
  with_own_files([&] { reopen(was_orderly); });
  output_.write_again();
  remove_unfinished(options_.directory);
  checkpoints_->settle_in(options_.directory);
  result_.resumed_at = result_.steps;
}

DataCommitment ResumableRun::read_data_again(std::string committed) {
  data_ = read_rows(manifest_.data, *plan_.setting);
  data_commitment_of_ledger_ = std::move(committed);
  DataCommitment data;
  if (!manifest_.noise_off) {
    const auto value = data_commitment_of_ledger_.empty()
                           ? std::nullopt
                           : std::optional(data_commitment_of_ledger_);
    data = commit_again(manifest_.seed, data_.train, options_.state, value);
  }
  data.test_rows = commitment_to({}, data_.test);
  return data;
}

// ---- released statistics that transforms learn from

/// Statistics are released before the first step, with separate keys, so other draws of the run
/// reveal nothing about this noise. A run that is resumed from the checkpoint before the release
/// has the same rows and key, and repeats the same release. Later checkpoints contain the learnt
/// values.
void ResumableRun::release_statistics() {
  last_shown_.clear();
  const auto show_release = [&](const PlannedStatistic& one, std::span<const float> values) {
    const std::string which =
        one.of == StatisticOf::transform ? std::to_string(one.transform) : one.name;
    show("statistic " + which, values, last_shown_);
  };
  StatisticReleases releases(plan_, keys_->of_step().derive(kStatisticPurpose), *executor_,
                             ledger_of_statistics(), witness(), second_look_, show_release);
  releases.pay();
  releases.release_counts(data_.train);
  apply_transforms(manifest_, *plan_.setting, data_, options_.threads, options_.features,
                   &releases);
  result_.counts = releases.counts();
  is_transformed_ = true;
  statistics_are_released();
  if (checkpoints_) know_rows_made();
  keys_->bind_to(bound_with_rows());
  keys_->next(last_shown_);
  if (checkpoints_) save(Stop::none);
}

bool ResumableRun::has_learnt() const { return is_transformed_ && !plan_.statistics.empty(); }

std::string ResumableRun::learnt_text() const {
  StateWriter out;
  if (has_learnt()) core::save_statistics(out, plan_, result_.counts, data_.preprocessing);
  return out.text();
}

void ResumableRun::save_statistics(StateWriter& out) const {
  out.begin("statistics");
  out.word(has_learnt() ? 1 : 0);
  if (has_learnt()) core::save_statistics(out, plan_, result_.counts, data_.preprocessing);
}

void ResumableRun::take_up_statistics(StateReader& in) {
  in.begin("statistics");
  const bool are_kept = in.word() == 1;
  is_transformed_ = are_kept || plan_.statistics.empty();
  if (!is_transformed_) return;
  KeptStatistics teacher(in, plan_);
  result_.counts = teacher.counts();
  apply_transforms(manifest_, *plan_.setting, data_, options_.threads, options_.features, &teacher);
}

/// Receipts in hand may be used only if the run did nothing after the checkpoint, or if repeated
/// steps are identical.
void ResumableRun::reopen(bool was_orderly) {
  const bool may_repeat = steps_are_repeatable(plan_);
  if (!may_repeat && !was_orderly && receipts_to_take_up() > 0) {
    throw PrivacyError(options_.directory.string() +
                       ": the run was killed, and its steps cannot be repeated with the same bits "
                       "(floating_point is unaccounted): repeating those that it had paid for "
                       "would be a second release, which the budget does not pay for");
  }
  if (reservation_) reservation_->resume(bound_for_account());
  if (measured_at_ == made()) output_.measure_again(data_, bench(), *executor_);
  reopen_records(may_repeat);
  // Unlike the last checkpoint, this one does not claim that the run ended here, because steps
  // follow.
  if (!may_repeat) save(Stop::none);
}

// ---- during the run

double ResumableRun::seconds() const {
  if (!began_) return earlier_seconds_;
  return earlier_seconds_ +
         std::chrono::duration<double>(std::chrono::steady_clock::now() - *began_).count();
}

/// Everything between the beginning of the run and the removal of its private state.
void ResumableRun::train_and_report() {
  if (!is_transformed_) {
    if (ends_here() && result_.can_be_resumed) return stop_for_later();
    release_statistics();
  }
  began_ = std::chrono::steady_clock::now();
  train();
  result_.seconds = seconds();
  if (result_.can_be_resumed) return stop_for_later();
  close();
}

PrivacyAnswer ResumableRun::spent() const {
  return ledger() != nullptr ? ledger()->spent() : plan_.epsilon();
}

/// Makes the remaining steps, and chooses the model.
void ResumableRun::train() {
  if (result_.status == RunStatus::unfinished) result_.status = RunStatus::completed;
  result_.epsilon = spent();
  // predictions are relative to this measurement
  if (made() == 0 && !measured_at_ && has_prediction(plan_)) report_progress();
  while (made() < planned() && !releases_end_it()) {
    if (ends_here()) {
      if (result_.can_be_resumed) return;
      break;
    }
    if (!make_next_step()) break;
  }
  result_.status = status_of_steps();
  for (const auto& feature : features_) feature->choose_model(*this);
  report_once();
  result_.status = output_.status_of_model(result_.status);
}

/// Whether released values have ended the run; sets its status then.
bool ResumableRun::releases_end_it() {
  for (const auto& feature : features_) {
    if (const auto ends = feature->ends_run()) {
      result_.status = *ends;
      return true;
    }
  }
  return false;
}

/// \returns false if this was the last step, or if the step could not be made.
bool ResumableRun::make_next_step() {
  for (const auto& feature : features_) {
    if (const auto ends = feature->before_step(made(), *this)) {
      result_.status = *ends;
      return false;
    }
  }
  last_shown_.clear();
  if (!make_step()) return false;
  bool is_due = made() == planned() || made() % plan_.evaluate_every() == 0;
  for (const auto& feature : features_)
    if (feature->after_step(made(), *this)) is_due = true;
  if (is_due) report_progress();
  keys_->next(last_shown_);
  if (checkpoints_ && made() < planned() && checkpoints_->is_due(made())) save(Stop::none);
  return true;
}

void ResumableRun::report_progress() {
  MetricsLine line = metrics_facts();
  for (const auto& feature : features_) feature->add_to_metrics(line, made(), *this);
  if (!plan_.federated)
    show("step " + std::to_string(made()), parameters(), known_unmeasured(line).dump());
  output_.report({.step = made(), .steps = planned(), .epsilon = shown_epsilon(), .metrics = {}},
                 line, data_, bench(), *executor_);
  measured_at_ = made();
}

void ResumableRun::report_once() {
  if (measured_at_ != made()) report_progress();
}

void ResumableRun::load(std::vector<float> parameters) {
  put_model(std::move(parameters));
  measured_at_.reset();
}

Metrics ResumableRun::measure() { return output_.measure(data_, bench(), *executor_); }

/// Writes the output of a finished run.
void ResumableRun::close() {
  show("model", parameters(), "");
  if (!(options_.finish && result_.status == RunStatus::interrupted)) {
    for (const auto& feature : features_) feature->model_is_final(*this);
  }
  Summary summary = summary_facts();
  for (const auto& feature : features_) feature->add_to_summary(summary);
  summary.test_evaluation = output_.test_evaluation(data_, bench(), *executor_);
  output_.close(
      result_, parameters(), data_.preprocessing, std::move(summary),
      [&](const Json& files) { close_ledgers(files); },
      [&](const std::string& text) {
        return checkpoints_ ? checkpoints_->settle_summary(text) : text;
      });
}

/// Writes no output file, so that the resumed run leaves the same files as an uninterrupted run.
void ResumableRun::stop_for_later() {
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

/// Whether the run has repeated everything that it had published or paid for before the
/// interruption.
bool ResumableRun::has_caught_up() const {
  return !output_.is_behind() && !checkpoints_->is_behind() && !records_are_behind();
}

/// Called before the statistics and before each step. Returns whether the run ends here: the user
/// has stopped it, or it has caught up and RunOptions::finish is set. If it ends here, sets
/// RunResult::can_be_resumed; if that becomes true, the run must do nothing more.
bool ResumableRun::ends_here() {
  const bool is_finished = options_.finish && has_caught_up();
  if (!is_finished && (options_.stop == nullptr || !options_.stop->load())) return false;
  result_.status = RunStatus::interrupted;
  result_.can_be_resumed = !is_finished && checkpoints_.has_value();
  return true;
}

void ResumableRun::show(const std::string& what, std::span<const float> parameters,
                        std::string_view more) {
  if (!checkpoints_) return;
  last_shown_ = hash_of_shown(parameters, more);
  checkpoints_->bind(what, last_shown_);
}

}  // namespace privgrad::core
