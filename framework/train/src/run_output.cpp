#include "privgrad/train/run_output.hpp"

#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/model/augmented_program.hpp"
#include "privgrad/model/model_file.hpp"
#include "privgrad/model/predictions.hpp"
#include "privgrad/model/safetensors.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/record/evidence.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/statement/model_description.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/statement/schedule_record.hpp"
#include "privgrad/statement/statement.hpp"
#include "privgrad/train/checkpoints.hpp"
#include "privgrad/train/process_group.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/json_problem.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

std::string version() {
  return PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(
      PRIVGRAD_VERSION_MINOR) "." PRIVGRAD_TEXT(PRIVGRAD_VERSION_PATCH);
}

constexpr int kDeepestLine = 64;

std::string facts_text(const Plan& plan) { return to_json(facts_of(plan)).dump() + "\n"; }

}  // namespace

ChecksFacts facts_of(const RunChecks& checks, Mode mode) {
  ChecksFacts facts{.contributions = checks.contributions,
                    .batches = checks.batches,
                    .noise_by = checks.noise_by};
  if (mode == Mode::research) facts.reported_differences = checks.reported_differences;
  return facts;
}

double mean_gradient_norm_along(const std::string& lines) {
  std::istringstream all(lines);
  double sum = 0.0;
  std::uint64_t count = 0;
  for (std::string line; std::getline(all, line);) {
    const Json json =
        json_problem(kDeepestLine, line).empty() ? Json::parse(line, nullptr, false) : Json();
    const auto measured = facts_in<MetricsLine>(json, "metrics.jsonl");
    if (!measured.step)
      throw IoError("metrics.jsonl: has a line that is not a measurement of a step");
    if (measured.step == 0U) continue;
    sum += measured.gradient_norm.value_or(std::nan(""));
    ++count;
  }
  return sum / static_cast<double>(count);
}

void RunOutput::open(const DataCommitment& data) {
  const Manifest& manifest = *plan_.manifest;
  data_ = data;
  const RoomForRun room(options_);
  make_run_directory(options_.directory);
  // This file is created first. The process that creates it owns the directory, and any other
  // process has written nothing.
  metrics_file_.emplace(options_.directory / "metrics.jsonl");
  try {
    write_atomically(options_.directory / "manifest.yaml", to_yaml(manifest.resolved));
  } catch (...) {
    // This run has written nothing else, so this restores the directory.
    metrics_file_.reset();
    std::error_code ignored;
    std::filesystem::remove(options_.directory / "metrics.jsonl", ignored);
    throw;
  }
  write_atomically(options_.directory / "privgrad.lock", options_.lock);
  write_atomically(options_.directory / "facts.json", facts_text(plan_));
  write_promise();
}

/// Writes a file, unless it already has this content.
void RunOutput::put(const char* name, const std::string& text) const {
  const RecordDirectory directory(options_.directory);
  if (directory.has(name) && directory.read_beginning(name, text.size() + 1) == text) return;
  write_atomically(options_.directory / name, text);
}

/// Writes the plan's statement now, in case the run is interrupted; it has the status `unfinished`.
void RunOutput::write_promise() const {
  Outcome so_far = outcome_of_all(plan_);
  so_far.data = data_;
  so_far.date = date_;
  write_schedules(so_far);
  write_statement(to_json(privacy_statement(plan_, so_far)));
}

void FilePosition::save(StateWriter& out) const {
  out.word(bytes);
  out.bytes(hash);
}

FilePosition FilePosition::restored(StateReader& in) {
  FilePosition at;
  at.bytes = in.word();
  at.hash = in.bytes();
  return at;
}

LineFile::LineFile(const std::filesystem::path& path, const FilePosition& at)
    : path_(path), file_(path, at.bytes) {
  if (sha256_hex(read_beginning(path, at.bytes)) != at.hash)
    throw IoError(path.string() + ": was changed since the checkpoint");
}

FilePosition LineFile::position() {
  file_.flush_to_disk();
  const std::uint64_t bytes = file_.position();
  return {bytes, sha256_hex(read_beginning(path_, bytes))};
}

void RunOutput::reopen(const DataCommitment& data, const FilePosition& metrics) {
  data_ = data;
  const std::filesystem::path facts = options_.directory / "facts.json";
  const std::string text = facts_text(plan_);
  if (read_beginning(facts, text.size() + 1) != text)
    throw PrivacyError(facts.string() + ": is not what the run recorded before its first step");
  metrics_file_.emplace(options_.directory / "metrics.jsonl", metrics);
}

void RunOutput::write_again() const {
  put("manifest.yaml", to_yaml(plan_.manifest->resolved));
  put("privgrad.lock", options_.lock);
  write_promise();
}

void RunOutput::write_schedules(const Outcome& outcome) const {
  put("schedules.json", to_json(schedule_record(plan_, outcome)).dump() + "\n");
}

Json RunOutput::ledger_facts() const {
  Json facts = core::ledger_facts(plan_, std::nullopt);
  facts["binds"] = {{"manifest.yaml", sha256_hex(to_yaml(plan_.manifest->resolved))},
                    {"privgrad.lock", sha256_hex(options_.lock)},
                    {"facts.json", sha256_hex(facts_text(plan_))}};
  facts["date"] = date_;
  facts["data_commitment"] = data_.value ? Json(*data_.value) : Json(nullptr);
  if (!data_.value) facts["no_data_commitment"] = data_.why_not;
  return facts;
}

void RunOutput::ledgers_are_open(const std::vector<std::pair<std::string, std::string>>& hashes) {
  ledger_opening_ = joint_hash(hashes);
}

void RunOutput::write_statement(const Json& statement) const {
  put("statement.json", statement.dump(2) + "\n");
}

void RunOutput::report(Progress progress, MetricsLine line, const RunData& data, Workbench& bench,
                       Executor& executor) {
  last_metrics_ = measure(data, bench, executor);
  static_cast<Metrics&>(line) = last_metrics_;
  if (!line.step) line.step = progress.step;
  line.epsilon = finite(progress.epsilon);
  metrics_file_->append(to_json(line).dump() + "\n");
  if (!options_.on_progress) return;
  progress.metrics = last_metrics_;
  options_.on_progress(progress);
}

RunStatus RunOutput::status_of_model(RunStatus status) const {
  if (status != RunStatus::completed && status != RunStatus::budget_exhausted &&
      status != RunStatus::stopped_early)
    return status;
  return has_finite_losses(last_metrics_) ? status : RunStatus::diverged;
}

/// Release mode has no exact metrics on private rows, because they would be unpaid releases.
Metrics RunOutput::measure(const RunData& data, Workbench& bench, Executor& executor) const {
  const Manifest& manifest = *plan_.manifest;
  Metrics metrics;
  if (manifest.mode == Mode::research) {
    measure_split(Split::train, data, bench, executor, metrics.train_loss, metrics.train_accuracy);
    if (manifest.gradient_norm)
      metrics.gradient_norm = mean_gradient_norm(*bench.program, data.train, executor);
  }
  if (manifest.mode == Mode::research || manifest.test_is_public) {
    measure_split(Split::test, data, bench, executor, metrics.test_loss, metrics.test_accuracy);
  }
  return metrics;
}

Json RunOutput::test_evaluation(const RunData& data, Workbench& bench, Executor& executor) const {
  const Manifest& manifest = *plan_.manifest;
  const bool may_be_shown = manifest.mode == Mode::research || manifest.test_is_public;
  if (!may_be_shown || data.test.rows() == 0) return nullptr;
  const auto* program =
      ability_of<Outputs>(plain_program(program_for(Split::test, bench, executor)));
  if (program == nullptr) return nullptr;
  const Network& network = plan_.setting->network;
  const auto predicted = [&](const Dataset& rows) {
    return predict(*program, network, rows, executor);
  };
  const DataInfo& info = plan_.setting->info;
  Json json = network.loss == Loss::next_token
                  ? next_token_json(network, data.test, predicted)
                  : evaluation_json(predicted(data.test), data.test.targets(),
                                    class_names(info.shape, info.class_names));
  json["private"] = !manifest.test_is_public;
  return json;
}

const Program& RunOutput::program_for(Split split, Workbench& bench, Executor& executor) const {
  if (split == Split::train || !plan_.manifest->test_is_public) return *bench.program;
  return bench.program_for_public_rows(plan_, executor);
}

void RunOutput::measure_split(Split split, const RunData& data, Workbench& bench,
                              Executor& executor, std::optional<double>& loss,
                              std::optional<double>& accuracy) const {
  const Dataset& measured = split == Split::test ? data.test : data.train;
  if (measured.rows() == 0) return;
  const Program& program = program_for(split, bench, executor);
  const Evaluation sums = processes_ == nullptr
                              ? evaluate(program, measured, executor)
                              : processes_->evaluate(program, bench.parameters, measured,
                                                     split == Split::test, executor);
  const auto rows = static_cast<double>(measured.rows());
  loss = sums.loss / rows;
  if (plan_.setting->network.input.classes > 0) accuracy = static_cast<double>(sums.correct) / rows;
}

void RunOutput::close(RunResult& result, const std::vector<float>& parameters,
                      const std::vector<FittedTransform>& preprocessing, Summary summary,
                      const std::function<void(const Json&)>& close_ledgers,
                      const std::function<std::string(const std::string&)>& settled) {
  result.metrics = last_metrics_;
  if (plan_.manifest->gradient_norm) {
    result.metrics.mean_gradient_norm = mean_gradient_norm_along(
        read_whole(options_.directory / "metrics.jsonl", std::size_t{1} << 30));
  }
  result.data = data_;
  result.date = date_;
  const Statement statement = privacy_statement(plan_, result);
  result.statement = to_json(statement);
  write_statement(result.statement);
  if (plan_.noise_adapts) write_schedules(result);
  write_atomically(
      options_.directory / "model.safetensors",
      to_safetensors(plan_.setting->whole, whole_parameters(*plan_.setting, parameters),
                     preprocessing, model_metadata(plan_, result, statement, ledger_opening_)));
  complete(summary, result);
  result.summary = to_json(summary);
  std::string text = result.summary.dump(2) + "\n";
  if (settled) {
    text = settled(text);
    result.summary = Json::parse(text);
  }
  close_ledgers(left_files(text));
  write_atomically(options_.directory / "summary.json", text);
}

/// The hashes of all files of the run. Only the summary is not on the disk yet.
Json RunOutput::left_files(const std::string& summary) const {
  const RecordDirectory directory(options_.directory);
  Json files = Json::object();
  for (const std::string& name : files_bound_at_end(plan_.federated != nullptr)) {
    if (name == "summary.json") {
      files[name] = sha256_hex(summary);
      continue;
    }
    const std::optional<std::string> hash = directory.sha256(name);
    if (!hash) throw IoError((options_.directory / name).string() + ": has vanished");
    files[name] = *hash;
  }
  return files;
}

void RunOutput::complete(Summary& summary, const RunResult& result) const {
  static_cast<OutcomeFacts&>(summary) = outcome_facts(plan_, result, result.statement);
  if (summary.output.empty()) summary.output = "last";
  summary.metrics = result.metrics;
  summary.no_checkpoints = result.no_checkpoints;
  summary.threads = static_cast<Count>(options_.threads);
  summary.processes =
      options_.cluster == nullptr ? 1 : static_cast<Count>(options_.cluster->size());
  // The time of a step depends on the number of its examples, which is private.
  if (plan_.manifest->mode != Mode::release) summary.seconds = result.seconds;
  summary.run_dir = options_.directory.string();
}

DataCommitment read_committed_data(const Plan& plan, const RunOptions& options, RunData& data) {
  const Manifest& manifest = *plan.manifest;
  data = read_rows(manifest.data, *plan.setting);
  DataCommitment made;
  if (!manifest.noise_off) made = commit(manifest.seed, data.train, options.state);
  made.test_rows = commitment_to({}, data.test);
  if (plan.statistics.empty())
    apply_transforms(manifest, *plan.setting, data, options.threads, options.features);
  return made;
}

Json ledger_facts(const Plan& plan, std::optional<std::size_t> client) {
  const Manifest& manifest = *plan.manifest;
  Json facts{{"privgrad", version()},
             {"name", manifest.name},
             {"mode", mode_name(manifest.mode)},
             {"reproducible", manifest.seed.has_value()},
             {"adjacency", to_text(manifest.adjacency)},
             {"unit", to_text(plan.unit)},
             {"sampler", manifest.sampler.component->full_name()},
             {"clipping", manifest.clipping.component->full_name()},
             {"aggregator", manifest.aggregator.component->full_name()},
             {"planned_steps", plan.steps()}};
  if (plan.federated) facts["rounds"] = manifest.federated->rounds;
  if (client) {
    const Plan& own = *plan.federated->clients.at(*client).plan;
    facts["client"] = *client;
    facts["dataset_size"] = own.dataset_size;
    facts["planned_steps"] = own.steps();
  }
  return facts;
}

std::map<std::string, std::string> model_metadata(const Plan& plan, const Outcome& outcome,
                                                  const Statement& statement,
                                                  const std::string& ledger_opening) {
  const Manifest& manifest = *plan.manifest;
  std::map<std::string, std::string> metadata{
      {"format", "privgrad"},
      {"privgrad", version()},
      {"name", manifest.name},
      {"mode", std::string(mode_name(manifest.mode))},
      {"reproducible", manifest.seed ? "true: not for release" : "false"},
      {"epsilon", format_number(outcome.epsilon.value)},
      {"delta", format_number(manifest.target_delta)},
      {"bound", std::string(to_text(outcome.epsilon.bound))},
      {"accountant", manifest.accountant.component->full_name()},
      {"unit", std::string(to_text(plan.unit))},
      {"adjacency", std::string(to_text(manifest.adjacency))},
      {"unaccounted", Json(unaccounted_names(plan.unaccounted)).dump()},
      {"statement", statement.short_}};
  if (!outcome.date.empty()) metadata["date"] = outcome.date;
  metadata.merge(model_description(plan, outcome.counts));
  if (!ledger_opening.empty()) metadata["ledger"] = ledger_opening;
  if (outcome.counts.rows) metadata["released_rows"] = std::to_string(*outcome.counts.rows);
  if (!outcome.counts.classes.empty())
    metadata["released_class_counts"] = Json(outcome.counts.classes).dump();
  if (plan.account) metadata["account"] = plan.account->opened;
  if (plan.setting->weights) metadata["initial_weights"] = plan.setting->weights->sha256;
  return metadata;
}

OutcomeFacts outcome_facts(const Plan& plan, const Outcome& outcome, Json statement) {
  const Manifest& manifest = *plan.manifest;
  OutcomeFacts facts{.status = Text(to_text(outcome.status)),
                     .name = manifest.name,
                     .bound = Text(to_text(outcome.epsilon.bound)),
                     .note = outcome.epsilon.note,
                     .accountant = plan.accountants.front().name,
                     .adjacency = Text(to_text(manifest.adjacency)),
                     .unit = Text(to_text(plan.unit)),
                     .sampler = manifest.sampler.name(),
                     .clipping = manifest.clipping.name(),
                     .aggregator = manifest.aggregator.name(),
                     .mode = Text(mode_name(manifest.mode)),
                     .privgrad = Text(version()),
                     .steps = outcome.steps,
                     .planned_steps = plan.steps(),
                     .parameters = plan.parameters,
                     .epsilon = finite(outcome.epsilon.value),
                     .delta = manifest.target_delta,
                     .floating_point = floating_point_json(plan.covers_bits()),
                     .statement = std::move(statement),
                     .unaccounted = unaccounted_names(plan.unaccounted),
                     .reproducible = manifest.seed.has_value(),
                     .date = outcome.date};
  if (const auto accounted = outcome.accounted_event(plan))
    facts.accounted_event = to_json(*accounted);
  return facts;
}

}  // namespace privgrad::core
