#include "privgrad/core/run.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "privgrad/core/event_json.hpp"
#include "privgrad/core/executor.hpp"
#include "privgrad/core/files.hpp"
#include "privgrad/core/safetensors.hpp"
#include "privgrad/core/schedule_record.hpp"
#include "privgrad/core/statement.hpp"
#include "privgrad/core/trainer.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

std::string version() {
  return PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(
      PRIVGRAD_VERSION_MINOR) "." PRIVGRAD_TEXT(PRIVGRAD_VERSION_PATCH);
}

std::vector<std::string> unaccounted_names(const Plan& plan) {
  std::vector<std::string> names;
  for (const Unaccounted& item : plan.unaccounted) names.push_back(item.what);
  return names;
}

std::string_view mode_name(const Manifest& manifest) {
  return manifest.mode == Mode::release ? "release" : "research";
}

Json optional_json(const std::optional<double>& value) {
  return value ? json_number(*value) : Json(nullptr);
}

class Training {
 public:
  Training(Plan& plan, const RunOptions& options)
      : plan_(plan),
        manifest_(*plan.manifest),
        options_(options),
        executor_(make_executor(options.threads)),
        key_(manifest_.seed ? RandomKey::from_seed(*manifest_.seed)
                            : RandomKey::from_operating_system()),
        trainer_(plan, train_, {}, key_, *executor_) {}

  RunResult run() {
    read_data();
    compile();
    open_directory();
    const auto begin = std::chrono::steady_clock::now();
    train();
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    close_directory();
    return std::move(result_);
  }

 private:
  void read_data() {
    const auto& use = manifest_.data;
    train_ = use.with_position([&] { return plan_.data->read(Split::train); });
    if (plan_.info.test_rows > 0)
      test_ = use.with_position([&] { return plan_.data->read(Split::test); });
    if (train_.rows() != plan_.info.train_rows) {
      throw IoError("the training data changed between the plan and the run: " +
                    std::to_string(train_.rows()) + " examples, planned " +
                    std::to_string(plan_.info.train_rows));
    }
    for (std::size_t i = 0; i < plan_.transforms.size(); ++i) {
      manifest_.transforms[i].with_position([&] {
        plan_.transforms[i]->fit(train_);
        plan_.transforms[i]->apply(train_);
        if (test_.rows() > 0) plan_.transforms[i]->apply(test_);
      });
    }
  }

  void compile() {
    bench_ = make_workbench(plan_, *executor_);
    bench_.load(initial_parameters(plan_, key_));
  }

  void open_directory() {
    make_run_directory(options_.directory);
    write_atomically(options_.directory / "manifest.yaml", to_yaml(manifest_.resolved));
    write_atomically(options_.directory / "privgrad.lock", options_.lock);
    write_atomically(options_.directory / "schedules.json", schedule_record(plan_).dump() + "\n");
    // Replaced at the end; a run that is cut off leaves one that says so.
    write_statement(privacy_statement(plan_, spending_of(plan_)));
    metrics_file_.emplace(options_.directory / "metrics.jsonl");
    if (manifest_.noise_off) return;
    trainer_.open_ledger(options_.directory / "ledger.jsonl",
                         {{"privgrad", version()},
                          {"name", manifest_.name},
                          {"mode", mode_name(manifest_)},
                          {"reproducible", manifest_.seed.has_value()},
                          {"adjacency", to_text(manifest_.adjacency)},
                          {"unit", to_text(PrivacyUnit::example)},
                          {"sampler", manifest_.sampler.component->full_name()},
                          {"clipping", manifest_.clipping.component->full_name()},
                          {"aggregator", manifest_.aggregator.component->full_name()},
                          {"planned_steps", plan_.steps()}});
  }

  void write_statement(const Json& statement) const {
    write_atomically(options_.directory / "statement.json", statement.dump(2) + "\n");
  }

  /// Drawn before the first step, so it says nothing about the data.
  std::uint64_t step_of_output() const {
    const std::uint64_t steps = std::max<std::uint64_t>(1, plan_.affordable_steps);
    return make_random_source(key_.derive("output"))->stream(0)->uniform_below(steps);
  }

  void train() {
    const std::uint64_t chosen = step_of_output();
    std::vector<float> output;
    result_.epsilon = ledger() != nullptr ? ledger()->spent() : plan_.epsilon();
    for (std::uint64_t step = 0; step < plan_.steps(); ++step) {
      if (options_.stop != nullptr && options_.stop->load()) {
        result_.status = RunStatus::interrupted;
        break;
      }
      if (manifest_.random_iterate && step == chosen) output = bench_.parameters;
      if (!pay_for(step)) {
        result_.status = RunStatus::budget_exhausted;
        break;
      }
      if (!trainer_.take_step(step, bench_)) {
        result_.status = RunStatus::diverged;
        break;
      }
      result_.steps = step + 1;
      if (result_.steps % manifest_.evaluate_every == 0 || result_.steps == plan_.steps())
        report_progress();
    }
    has_random_iterate_ = !output.empty();
    if (has_random_iterate_) {
      bench_.load(std::move(output));
      measured_at_.reset();
    }
    if (measured_at_ != result_.steps) report_progress();
    result_.metrics = last_metrics_;
  }

  /// \returns whether the step is paid for. The data has not been touched when it is not.
  bool pay_for(std::uint64_t step) {
    const bool paid = trainer_.pay_for(step);
    if (ledger() != nullptr) result_.epsilon = ledger()->spent();
    return paid;
  }

  void report_progress() {
    last_metrics_ = measure();
    measured_at_ = result_.steps;
    Json line = to_json(last_metrics_);
    line["step"] = result_.steps;
    line["epsilon"] = json_number(result_.epsilon.value);
    line["clip_norm"] = trainer_.clip_norm();
    // Released with the gradients, and charged; nobody else knows how much was clipped.
    if (plan_.adaptive != nullptr)
      line["clipped_fraction"] = optional_json(trainer_.clipped_fraction());
    metrics_file_->append(line.dump() + "\n");
    if (options_.on_progress) {
      options_.on_progress({.step = result_.steps,
                            .steps = plan_.steps(),
                            .epsilon = result_.epsilon.value,
                            .metrics = last_metrics_});
    }
  }

  /// Exact metrics on private rows are a release of their own: release mode has none of them.
  Metrics measure() const {
    Metrics metrics;
    if (manifest_.mode == Mode::research) {
      measure_split(train_, metrics.train_loss, metrics.train_accuracy);
    }
    if (manifest_.mode == Mode::research || manifest_.test_is_public) {
      measure_split(test_, metrics.test_loss, metrics.test_accuracy);
    }
    return metrics;
  }

  void measure_split(const Dataset& data, std::optional<double>& loss,
                     std::optional<double>& accuracy) const {
    if (data.rows() == 0) return;
    const Evaluation sums = evaluate(*bench_.program, data, *executor_);
    const auto rows = static_cast<double>(data.rows());
    loss = sums.loss / rows;
    if (plan_.network.input.classes > 0) accuracy = static_cast<double>(sums.correct) / rows;
  }

  void close_directory() {
    const std::string status(to_text(result_.status));
    if (ledger() != nullptr) ledger()->close(status, result_.steps);
    result_.statement =
        privacy_statement(plan_, {.status = status,
                                  .steps = result_.steps,
                                  .charged_steps = ledger() != nullptr ? ledger()->releases() : 0,
                                  .epsilon = result_.epsilon});
    write_statement(result_.statement);
    write_atomically(options_.directory / "model.safetensors",
                     to_safetensors(plan_.network, bench_.parameters, model_metadata()));
    result_.summary = summary(status);
    write_atomically(options_.directory / "summary.json", result_.summary.dump(2) + "\n");
  }

  /// A model travels without its directory, so it carries its own privacy statement.
  std::map<std::string, std::string> model_metadata() const {
    return {{"format", "privgrad"},
            {"privgrad", version()},
            {"name", manifest_.name},
            {"mode", std::string(mode_name(manifest_))},
            {"reproducible", manifest_.seed ? "true: not for release" : "false"},
            {"epsilon", format_number(result_.epsilon.value)},
            {"delta", format_number(manifest_.target_delta)},
            {"bound", std::string(to_text(result_.epsilon.bound))},
            {"accountant", manifest_.accountant.component->full_name()},
            {"unit", std::string(to_text(PrivacyUnit::example))},
            {"adjacency", std::string(to_text(manifest_.adjacency))},
            {"unaccounted", Json(unaccounted_names(plan_)).dump()},
            {"statement", result_.statement.at("short").get<std::string>()}};
  }

  Json summary(const std::string& status) const {
    return {{"status", status},
            {"name", manifest_.name},
            {"steps", result_.steps},
            {"planned_steps", plan_.steps()},
            {"epsilon", json_number(result_.epsilon.value)},
            {"delta", manifest_.target_delta},
            {"bound", to_text(result_.epsilon.bound)},
            {"note", result_.epsilon.note},
            {"accountant", plan_.accountants.front().name},
            {"adjacency", to_text(manifest_.adjacency)},
            {"unit", to_text(PrivacyUnit::example)},
            {"sampler", manifest_.sampler.component->factory.info.name},
            {"clipping", manifest_.clipping.component->factory.info.name},
            {"clip_norm", trainer_.clip_norm()},
            {"output", has_random_iterate_ ? "random_iterate" : "last"},
            {"aggregator", manifest_.aggregator.component->factory.info.name},
            {"parameters", plan_.parameters},
            {"metrics", to_json(result_.metrics)},
            {"unaccounted", unaccounted_names(plan_)},
            {"mode", mode_name(manifest_)},
            {"reproducible", manifest_.seed.has_value()},
            {"threads", options_.threads},
            // How long steps take depends on how many examples they hold.
            {"seconds", manifest_.mode == Mode::release ? Json(nullptr) : Json(result_.seconds)},
            {"privgrad", version()},
            {"statement", result_.statement},
            {"run_dir", options_.directory.string()}};
  }

  Ledger* ledger() { return trainer_.ledger(); }

  Plan& plan_;
  const Manifest& manifest_;
  const RunOptions& options_;
  std::unique_ptr<Executor> executor_;
  RandomKey key_;
  Dataset train_, test_;
  Trainer trainer_;
  Workbench bench_;
  bool has_random_iterate_ = false;  // a run that is stopped before it keeps the last one

  std::optional<AppendOnlyFile> metrics_file_;
  Metrics last_metrics_;
  std::optional<std::uint64_t> measured_at_;
  RunResult result_;
};

}  // namespace

nlohmann::json to_json(const Metrics& metrics) {
  return {{"train_loss", optional_json(metrics.train_loss)},
          {"train_accuracy", optional_json(metrics.train_accuracy)},
          {"test_loss", optional_json(metrics.test_loss)},
          {"test_accuracy", optional_json(metrics.test_accuracy)}};
}

std::string_view to_text(RunStatus status) {
  switch (status) {
    case RunStatus::completed:
      return "completed";
    case RunStatus::budget_exhausted:
      return "budget_exhausted";
    case RunStatus::interrupted:
      return "interrupted";
    case RunStatus::diverged:
      return "diverged";
  }
  return "?";
}

RunResult run(Plan& plan, const RunOptions& options) { return Training(plan, options).run(); }

nlohmann::json to_json(const Plan& plan) {
  const Manifest& manifest = *plan.manifest;
  Json accountants = Json::object();
  for (const AccountantReport& report : plan.accountants) {
    accountants[report.name] = {{"epsilon", json_number(report.epsilon.value)},
                                {"lower", optional_json(report.epsilon.lower)},
                                {"bound", to_text(report.epsilon.bound)},
                                {"note", report.epsilon.note}};
  }
  Json json{{"name", manifest.name},
            {"steps", plan.steps()},
            {"affordable_steps", plan.affordable_steps},
            {"noise_multiplier", plan.noise_multiplier},
            {"clip_norm", plan.clip_norm},
            {"learning_rate", plan.learning_rate},
            {"epsilon", json_number(plan.epsilon().value)},
            {"delta", manifest.target_delta},
            {"adjacency", to_text(manifest.adjacency)},
            {"accountant", plan.accountants.front().name},
            {"accountants", std::move(accountants)},
            {"parameters", plan.parameters},
            {"dataset_size", plan.dataset_size},
            {"batch_size", plan.batch_size},
            {"unaccounted", unaccounted_names(plan)},
            {"mode", mode_name(manifest)},
            {"reproducible", manifest.seed.has_value()},
            {"event", to_json(plan.event)}};
  if (plan.grid_levels != 0) json["grid_levels"] = plan.grid_levels;
  if (plan.correlated && !manifest.noise_off) {
    json["participation"] =
        to_json(plan.correlated->rho(plan.order(), plan.dataset_size, manifest.adjacency));
  }
  if (plan.adaptive != nullptr) {
    json["count_noise"] = plan.count_noise;
    json["gradient_noise_multiplier"] = plan.gradient_noise_multiplier();
  }
  return json;
}

}  // namespace privgrad::core
