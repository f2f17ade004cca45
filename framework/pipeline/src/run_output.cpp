#include "run_output.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "privgrad/pipeline/plan_json.hpp"
#include "privgrad/pipeline/safetensors.hpp"
#include "privgrad/pipeline/schedule_record.hpp"
#include "privgrad/pipeline/statement.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/event_json.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

std::string version() {
  return PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(
      PRIVGRAD_VERSION_MINOR) "." PRIVGRAD_TEXT(PRIVGRAD_VERSION_PATCH);
}

}  // namespace

Json checks_json(const RunChecks& checks, Mode mode) {
  Json json{{"contributions", checks.contributions}, {"batches", checks.batches}};
  if (mode == Mode::research) json["reported_differences"] = checks.reported_differences;
  return json;
}

void RunOutput::open() {
  const Manifest& manifest = *plan_.manifest;
  make_run_directory(options_.directory);
  write_atomically(options_.directory / "manifest.yaml", to_yaml(manifest.resolved));
  write_atomically(options_.directory / "privgrad.lock", options_.lock);
  const Outcome so_far = outcome_of_all(plan_);
  write_schedules(so_far);
  // Replaced at the end; a run that is cut off leaves one that says so.
  write_statement(privacy_statement(plan_, so_far));
  metrics_file_.emplace(options_.directory / "metrics.jsonl");
}

void RunOutput::write_schedules(const Outcome& outcome) const {
  write_atomically(options_.directory / "schedules.json",
                   schedule_record(plan_, outcome).dump() + "\n");
}

Json RunOutput::ledger_facts() const {
  const Manifest& manifest = *plan_.manifest;
  return {{"privgrad", version()},
          {"name", manifest.name},
          {"mode", mode_name(manifest)},
          {"reproducible", manifest.seed.has_value()},
          {"adjacency", to_text(manifest.adjacency)},
          {"unit", to_text(plan_.unit)},
          {"sampler", manifest.sampler.component->full_name()},
          {"clipping", manifest.clipping.component->full_name()},
          {"aggregator", manifest.aggregator.component->full_name()},
          {"planned_steps", plan_.steps()}};
}

void RunOutput::write_statement(const Json& statement) const {
  write_atomically(options_.directory / "statement.json", statement.dump(2) + "\n");
}

void RunOutput::report(Progress progress, const Json& more, const RunData& data,
                       const Workbench& bench, Executor& executor) {
  last_metrics_ = measure(data, bench, executor);
  Json line = to_json(last_metrics_);
  line["step"] = progress.step;
  line["epsilon"] = json_number(progress.epsilon);
  line.update(more);
  metrics_file_->append(line.dump() + "\n");
  if (!options_.on_progress) return;
  progress.metrics = last_metrics_;
  options_.on_progress(progress);
}

/// Exact metrics on private rows are a release of their own: release mode has none of them.
Metrics RunOutput::measure(const RunData& data, const Workbench& bench, Executor& executor) const {
  const Manifest& manifest = *plan_.manifest;
  Metrics metrics;
  if (manifest.mode == Mode::research) {
    measure_split(data.train, bench, executor, metrics.train_loss, metrics.train_accuracy);
    if (manifest.gradient_norm)
      metrics.gradient_norm = mean_gradient_norm(*bench.program, data.train, executor);
  }
  if (manifest.mode == Mode::research || manifest.test_is_public) {
    measure_split(data.test, bench, executor, metrics.test_loss, metrics.test_accuracy);
  }
  return metrics;
}

void RunOutput::measure_split(const Dataset& data, const Workbench& bench, Executor& executor,
                              std::optional<double>& loss, std::optional<double>& accuracy) const {
  if (data.rows() == 0) return;
  const Evaluation sums = evaluate(*bench.program, data, executor);
  const auto rows = static_cast<double>(data.rows());
  loss = sums.loss / rows;
  if (plan_.setting->network.input.classes > 0) accuracy = static_cast<double>(sums.correct) / rows;
}

void RunOutput::close(RunResult& result, const std::vector<float>& parameters, const Json& more) {
  result.metrics = last_metrics_;
  result.statement = privacy_statement(plan_, result);
  write_statement(result.statement);
  if (plan_.noise_adapts) write_schedules(result);
  write_atomically(options_.directory / "model.safetensors",
                   to_safetensors(plan_.setting->network, parameters, model_metadata(result)));
  result.summary = summary(result);
  result.summary.update(more);
  write_atomically(options_.directory / "summary.json", result.summary.dump(2) + "\n");
}

/// A model travels without its directory, so it carries its own privacy statement.
std::map<std::string, std::string> RunOutput::model_metadata(const RunResult& result) const {
  const Manifest& manifest = *plan_.manifest;
  return {{"format", "privgrad"},
          {"privgrad", version()},
          {"name", manifest.name},
          {"mode", std::string(mode_name(manifest))},
          {"reproducible", manifest.seed ? "true: not for release" : "false"},
          {"epsilon", format_number(result.epsilon.value)},
          {"delta", format_number(manifest.target_delta)},
          {"bound", std::string(to_text(result.epsilon.bound))},
          {"accountant", manifest.accountant.component->full_name()},
          {"unit", std::string(to_text(plan_.unit))},
          {"adjacency", std::string(to_text(manifest.adjacency))},
          {"unaccounted", Json(unaccounted_names(plan_)).dump()},
          {"statement", result.statement.at("short").get<std::string>()}};
}

Json RunOutput::summary(const RunResult& result) const {
  const Manifest& manifest = *plan_.manifest;
  return {{"status", to_text(result.status)},
          {"name", manifest.name},
          {"steps", result.steps},
          {"planned_steps", plan_.steps()},
          {"epsilon", json_number(result.epsilon.value)},
          {"delta", manifest.target_delta},
          {"bound", to_text(result.epsilon.bound)},
          {"note", result.epsilon.note},
          {"accountant", plan_.accountants.front().name},
          {"adjacency", to_text(manifest.adjacency)},
          {"unit", to_text(plan_.unit)},
          {"sampler", manifest.sampler.name()},
          {"clipping", manifest.clipping.name()},
          {"output", "last"},
          {"aggregator", manifest.aggregator.name()},
          {"parameters", plan_.parameters},
          {"metrics", to_json(result.metrics)},
          {"floating_point", floating_point_json(plan_)},
          {"unaccounted", unaccounted_names(plan_)},
          {"mode", mode_name(manifest)},
          {"reproducible", manifest.seed.has_value()},
          {"threads", options_.threads},
          // How long steps take depends on how many examples they hold.
          {"seconds", manifest.mode == Mode::release ? Json(nullptr) : Json(result.seconds)},
          {"privgrad", version()},
          {"statement", result.statement},
          {"run_dir", options_.directory.string()}};
}

}  // namespace privgrad::core
