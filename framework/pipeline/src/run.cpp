#include "privgrad/pipeline/run.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "federated_run.hpp"
#include "privgrad/influence.hpp"
#include "privgrad/pipeline/executor.hpp"
#include "privgrad/pipeline/federated_plan.hpp"
#include "privgrad/pipeline/schedule_record.hpp"
#include "privgrad/pipeline/trainer.hpp"
#include "privgrad/trust/event_json.hpp"
#include "run_output.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

class Training {
 public:
  Training(Plan& plan, const RunOptions& options)
      : plan_(plan),
        manifest_(*plan.manifest),
        options_(options),
        output_(plan, options),
        executor_(make_executor(options.threads)),
        key_(run_key(manifest_)),
        trainer_(plan, data_.train, std::nullopt, key_, *executor_) {}

  RunResult run() {
    data_ = read_data(plan_);
    bench_ = make_workbench(plan_, *executor_);
    bench_.load(initial_parameters(plan_, key_));
    output_.open();
    if (!manifest_.noise_off)
      trainer_.open_ledger(options_.directory / "ledger.jsonl", output_.ledger_facts());
    const auto begin = std::chrono::steady_clock::now();
    train();
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    close();
    return std::move(result_);
  }

 private:
  /// Drawn before the first step, so it says nothing about the data.
  std::uint64_t step_of_output() const {
    const std::uint64_t steps = std::max<std::uint64_t>(1, plan_.affordable_steps);
    return make_random_source(key_.derive("output"))->stream(0)->uniform_below(steps);
  }

  void train() {
    const std::uint64_t chosen = step_of_output();
    std::vector<float> output;
    result_.epsilon = ledger() != nullptr ? ledger()->spent() : plan_.epsilon();
    if (has_prediction(plan_)) report_progress();  // what the prediction is relative to
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
      if (result_.steps % plan_.evaluate_every() == 0 || result_.steps == plan_.steps())
        report_progress();
    }
    has_random_iterate_ = !output.empty();
    if (has_random_iterate_) {
      bench_.load(std::move(output));
      measured_at_.reset();
    }
    if (measured_at_ != result_.steps) report_progress();
  }

  /// \returns whether the step is paid for, and what chooses its noise. Nothing has been released
  ///   when it is not.
  bool pay_for(std::uint64_t step) {
    const bool paid = trainer_.choose_noise(step, bench_, data_.test) && trainer_.pay_for(step);
    if (ledger() != nullptr) result_.epsilon = ledger()->spent();
    return paid;
  }

  void report_progress() {
    Json more{{"clip_norm", trainer_.clip_norm()}};
    // Released with the gradients, and charged; nobody else knows how much was clipped.
    if (plan_.adaptive != nullptr)
      more["clipped_fraction"] = optional_json(trainer_.clipped_fraction());
    if (const AdaptiveNoise* noise = trainer_.adaptive_noise())
      more["noise_multiplier"] = noise->noise_multiplier();
    output_.report({.step = result_.steps,
                    .steps = plan_.steps(),
                    .epsilon = result_.epsilon.value,
                    .metrics = {}},
                   more, data_, bench_, *executor_);
    measured_at_ = result_.steps;
  }

  void close() {
    if (ledger() != nullptr) ledger()->close(std::string(to_text(result_.status)), result_.steps);
    Json more{{"clip_norm", trainer_.clip_norm()},
              {"output", has_random_iterate_ ? "random_iterate" : "last"}};
    ChargedSteps steps;
    if (ledger() != nullptr) steps.charged = steps.accounted = ledger()->releases();
    if (plan_.noise_adapts) {
      steps.charged = steps.accounted = record_noise();
      more["epsilon_spent"] = plan_.noise_adapts->made->spent_epsilon;
      more["adaptive_noise"] = to_json(*plan_.noise_adapts);
    } else if (result_.status == RunStatus::diverged && ledger() != nullptr) {
      // Releases decided that this was the last step: what is proved is about all of them.
      steps.accounted = plan_.affordable_steps;
      result_.epsilon = of_all_steps(plan_);
    }
    output_.close(result_, steps, bench_.parameters, more);
  }

  /// Of noise that adapts: the plan becomes what was made of it, and the guarantee is the budget.
  /// \returns how many steps were paid for.
  std::uint64_t record_noise() {
    NoiseRecord record = trainer_.adaptive_noise()->record();
    record.spent_epsilon = ledger()->spent().value;
    plan_.noise_multiplier = record.noise_multiplier;
    plan_.charges = record.steps;
    plan_.beside = record.checks;
    plan_.noise_adapts->made = std::move(record);
    result_.epsilon = plan_.epsilon();
    return plan_.charges.size();
  }

  Ledger* ledger() { return trainer_.ledger(); }

  Plan& plan_;
  const Manifest& manifest_;
  const RunOptions& options_;
  RunOutput output_;
  std::unique_ptr<Executor> executor_;
  RandomKey key_;
  RunData data_;
  Trainer trainer_;
  Workbench bench_;
  bool has_random_iterate_ = false;  // a run that is stopped before it keeps the last one
  std::optional<std::uint64_t> measured_at_;
  RunResult result_;
};

/// What the noise does at the end, by the influence that it was made from: as the plan has it, the
/// least that its budget allows, and what uniform noise of that budget would do.
Json influence_json(const Plan& plan) {
  const double budget = budget_of_noise(plan.noise_multiplier);
  const std::vector<double> uniform(plan.influence.size(),
                                    std::sqrt(static_cast<double>(plan.influence.size()) / budget));
  return {{"values", plan.influence},
          {"budget", budget},
          {"weighted_noise", weighted_noise(plan.influence, plan.noise_multiplier)},
          {"least", least_weighted_noise(plan.influence, budget)},
          {"uniform", weighted_noise(plan.influence, uniform)}};
}

}  // namespace

nlohmann::json to_json(const Metrics& metrics) {
  Json json{{"train_loss", optional_json(metrics.train_loss)},
            {"train_accuracy", optional_json(metrics.train_accuracy)},
            {"test_loss", optional_json(metrics.test_loss)},
            {"test_accuracy", optional_json(metrics.test_accuracy)}};
  if (metrics.gradient_norm) json["gradient_norm"] = json_number(*metrics.gradient_norm);
  return json;
}

nlohmann::json to_json(const AdaptiveNoisePlan& adapts) {
  const Measurement& measurement = adapts.measurement;
  Json json{{"measured", to_text(measurement.what)},
            {"every", measurement.every},
            {"unchanged_epsilon", json_number(adapts.unchanged.value)}};
  if (adapts.is_charged()) {
    json["loss_bound"] = measurement.loss_bound;
    json["check_noise_multiplier"] = measurement.noise_multiplier;
    json["checks_epsilon"] = json_number(adapts.of_checks.value);
  }
  if (!adapts.made) return json;
  json["spent_epsilon"] = json_number(adapts.made->spent_epsilon);
  json["measurements"] = {{"step", adapts.made->measured_at}, {"value", Json::array()}};
  for (const double value : adapts.made->measured)
    json["measurements"]["value"].push_back(json_number(value));
  return json;
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

RunResult run(Plan& plan, const RunOptions& options) {
  if (plan.federated) return federated_run(plan, options);
  return Training(plan, options).run();
}

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
  if (!plan.auto_values.empty()) {
    json["auto"] = Json::object();
    for (const PlannedAuto& chosen : plan.auto_values)
      json["auto"][chosen.where] = {{"value", chosen.value}, {"reason", chosen.reason}};
  }
  if (plan.federated) json["federated"] = to_json(*plan.federated, manifest);
  if (plan.grid_levels != 0) json["grid_levels"] = plan.grid_levels;
  if (!plan.influence.empty() && !manifest.noise_off) json["influence"] = influence_json(plan);
  if (plan.correlated && !manifest.noise_off) {
    json["participation"] =
        to_json(plan.correlated->rho(plan.order(), plan.dataset_size, manifest.adjacency));
  }
  if (plan.noise_adapts) json["adaptive_noise"] = to_json(*plan.noise_adapts);
  if (plan.adaptive != nullptr) {
    json["count_noise"] = plan.count_noise;
    json["gradient_noise_multiplier"] = plan.gradient_noise_multiplier();
  }
  return json;
}

}  // namespace privgrad::core
