#include "privgrad/core/run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <utility>

#include "privgrad/core/certified_accountant.hpp"
#include "privgrad/core/clipped_sum.hpp"
#include "privgrad/core/correlated_mechanism.hpp"
#include "privgrad/core/event_json.hpp"
#include "privgrad/core/executor.hpp"
#include "privgrad/core/files.hpp"
#include "privgrad/core/joint_release.hpp"
#include "privgrad/core/mechanism.hpp"
#include "privgrad/core/safetensors.hpp"
#include "privgrad/core/schedule_record.hpp"
#include "privgrad/core/statement.hpp"
#include "privgrad/finite.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

/// Steps that are paid for together: one answer of the accountant, one flush to the disk. At most
/// 64 times a run, so that neither a slow accountant nor a slow disk holds up the steps. A run that
/// is cut off may have paid for steps that it never made; the other way round cannot happen.
std::uint64_t steps_per_payment(std::uint64_t steps) {
  return std::max<std::uint64_t>(1, (steps + 63) / 64);
}

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
        sampler_random_(plan.correlated ? plan.correlated->random
                                        : make_random_source(key_.derive("sampler"))),
        mechanism_(*plan.aggregator, key_.derive("noise"), *executor_),
        clip_norm_(plan.clip_norm.front()) {
    if (plan.correlated)
      correlated_.emplace(plan.correlated->parts, key_.derive("noise"), *executor_);
  }

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
    parameters_.resize(plan_.parameters);
    const auto source = make_random_source(key_.derive("model"));
    const auto random = source->stream(0);
    manifest_.model.with_position(
        [&] { plan_.model->initialise(plan_.network, *random, parameters_); });
    program_ = make_program();
    program_->load_parameters(parameters_);
    plan_.optimizer->start(plan_.parameters);
    if (plan_.differences == nullptr) return;
    anchor_ = make_program();
    last_anchor_ = make_program();
    if (!manifest_.noise_off) combined_noise_ = plan_.differences->combined_noise();
  }

  std::unique_ptr<Program> make_program() {
    std::unique_ptr<Program> program;
    if (auto* own = dynamic_cast<SelfExecuting*>(plan_.model.get())) {
      program = own->make_program(plan_.network, *executor_);
    } else {
      if (backend_ == nullptr) backend_ = manifest_.backend.make<Backend>();
      program = manifest_.backend.with_position(
          [&] { return backend_->compile(plan_.network, *executor_); });
    }
    if (program->parameter_count() != plan_.parameters) {
      throw PluginError("the backend's program has " + std::to_string(program->parameter_count()) +
                        " parameters, the model describes " + std::to_string(plan_.parameters));
    }
    return program;
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
    accountant_ = make_accountant(manifest_.accountant);
    accountant_->start(manifest_.adjacency);
    ledger_.emplace(
        options_.directory / "ledger.jsonl",
        Budget{manifest_.target_epsilon, manifest_.target_delta, charges_are_bounds(plan_)},
        *accountant_, manifest_.accountant.component->full_name(),
        Json{{"privgrad", version()},
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
    result_.epsilon = ledger_ ? ledger_->spent() : plan_.epsilon();
    for (std::uint64_t step = 0; step < plan_.steps(); ++step) {
      if (options_.stop != nullptr && options_.stop->load()) {
        result_.status = RunStatus::interrupted;
        break;
      }
      if (manifest_.random_iterate && step == chosen) output = parameters_;
      if (!pay_for(step)) {
        result_.status = RunStatus::budget_exhausted;
        break;
      }
      if (!take_step(step)) {
        result_.status = RunStatus::diverged;
        break;
      }
      result_.steps = step + 1;
      if (result_.steps % plan_.evaluate_every() == 0 || result_.steps == plan_.steps())
        report_progress();
    }
    has_random_iterate_ = !output.empty();
    if (has_random_iterate_) {
      parameters_ = std::move(output);
      program_->load_parameters(parameters_);
      measured_at_.reset();
    }
    if (measured_at_ != result_.steps) report_progress();
    result_.metrics = last_metrics_;
  }

  /// \returns whether the step is paid for. The data has not been touched when it is not.
  bool pay_for(std::uint64_t step) {
    if (!ledger_ || !receipts_.empty()) return true;
    // A block ends where the plan says that the budget does; the ledger checks it all the same.
    const std::uint64_t limit =
        step < plan_.affordable_steps ? plan_.affordable_steps : plan_.charges.size();
    const std::uint64_t count = std::min(steps_per_payment(plan_.charges.size()), limit - step);
    for (Receipt& receipt : ledger_->charge(std::span(plan_.charges).subspan(step, count))) {
      receipts_.push_back(std::move(receipt));
    }
    result_.epsilon = ledger_->spent();
    return !receipts_.empty();
  }

  /// \returns false if the parameters are no longer finite; the last finite ones are kept.
  bool take_step(std::uint64_t step) {
    plan_.sampler->sample(step, train_.rows(), *sampler_random_, batch_);
    if (plan_.correlated && !plan_.correlated->participation->covers(step, batch_, plan_.order())) {
      throw PluginError(manifest_.sampler.component->full_name() + ": the batch of step " +
                        std::to_string(step) + " has rows that its order does not name");
    }
    const Released gradient = released_gradient(step);
    previous_ = parameters_;
    plan_.optimizer->step(parameters_, gradient,
                          {.step = step, .learning_rate = plan_.learning_rate[step]});
    const bool finite = all_finite(parameters_);
    if (!finite) parameters_ = previous_;
    program_->load_parameters(parameters_);
    return finite;
  }

  Released released_gradient(std::uint64_t step) {
    const bool adaptive = plan_.adaptive != nullptr;
    if (!adaptive || step == 0) clip_norm_ = plan_.clip_norm[step];
    const double share = adaptive ? plan_.count_share[step] : 0.0;
    const Clip clip{.rule = *plan_.clipping,
                    .groups = plan_.groups,
                    .clip_norm = clip_norm_,
                    .count_share = share};
    if (plan_.grid_levels != 0) return release_on_grid(step, clip);
    if (plan_.differences != nullptr) return release_differences(step, clip);
    Bounded sum = clipped_sum(*program_, train_, batch_, clip, *executor_,
                              manifest_.microbatch_size, &sum_memory_);
    Released released = release(std::move(sum), plan_.batch_size[step]);
    if (!adaptive) return released;
    JointParts parts = take_apart(released, clip_norm_, share);
    clipped_fraction_ = 1.0 - parts.unclipped;
    adapt_clip_norm(parts.unclipped);
    return std::move(parts.gradients);
  }

  /// From released values only, so the next clip norm costs nothing more.
  void adapt_clip_norm(double unclipped) {
    const double next = plan_.adaptive->next_clip_norm(clip_norm_, unclipped);
    if (!std::isfinite(next) || next <= 0.0) {
      throw PluginError(manifest_.clipping.component->full_name() + ": gave a clip norm of " +
                        format_number(next) + ", expected a finite number above 0");
    }
    clip_norm_ = next;
  }

  Released release(Bounded sum, double divisor) {
    if (!ledger_ && correlated_) return correlated_->release_without_noise(std::move(sum), divisor);
    if (!ledger_) return mechanism_.release_without_noise(std::move(sum), divisor);
    if (correlated_) return correlated_->release(std::move(sum), take_receipt(), divisor);
    return mechanism_.release(std::move(sum), take_receipt(), divisor);
  }

  /// See UsesGradientDifferences. The bounds come from the plan, never from the iterates.
  Released release_differences(std::uint64_t step, const Clip& clip) {
    UsesGradientDifferences& aggregator = *plan_.differences;
    const std::uint64_t epoch = aggregator.epoch_steps();
    const bool is_anchor = step % epoch == 0;
    if (is_anchor) {
      std::swap(anchor_, last_anchor_);
      anchor_->load_parameters(parameters_);
    }
    const std::span<const CorrelatedPart> parts = plan_.correlated->parts;
    const bool has_last = step >= epoch;
    std::vector<Bounded> sums = anchored_sums(
        {.anchor = *anchor_,
         .current = is_anchor ? nullptr : program_.get(),
         .last_anchor = has_last ? last_anchor_.get() : nullptr},
        train_, batch_, clip,
        {.since_anchor = parts[1].bound(step) * clip.clip_norm,
         .between_anchors = has_last ? parts[2].bound(step - epoch) * clip.clip_norm : 0.0},
        *executor_);
    const double divisor = plan_.batch_size[step];
    if (!ledger_) {
      return combined(aggregator, step,
                      correlated_->release_without_noise(std::move(sums), divisor), 0.0);
    }
    return combined(aggregator, step,
                    correlated_->release(std::move(sums), take_receipt(), divisor),
                    combined_noise_[step] * clip.clip_norm / divisor);
  }

  Released release_on_grid(std::uint64_t step, const Clip& clip) {
    BoundedOnGrid sum =
        clipped_sum_on_grid(*program_, train_, batch_, clip, plan_.grid_levels, *executor_);
    return mechanism_.release(std::move(sum), manifest_.adjacency, take_receipt(),
                              plan_.batch_size[step]);
  }

  Receipt take_receipt() {
    Receipt receipt = std::move(receipts_.front());
    receipts_.pop_front();
    return receipt;
  }

  void report_progress() {
    last_metrics_ = measure();
    measured_at_ = result_.steps;
    Json line = to_json(last_metrics_);
    line["step"] = result_.steps;
    line["epsilon"] = json_number(result_.epsilon.value);
    line["clip_norm"] = clip_norm_;
    // Released with the gradients, and charged; nobody else knows how much was clipped.
    if (plan_.adaptive != nullptr) line["clipped_fraction"] = optional_json(clipped_fraction_);
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
      if (manifest_.gradient_norm)
        metrics.gradient_norm = mean_gradient_norm(*program_, train_, *executor_);
    }
    if (manifest_.mode == Mode::research || manifest_.test_is_public) {
      measure_split(test_, metrics.test_loss, metrics.test_accuracy);
    }
    return metrics;
  }

  void measure_split(const Dataset& data, std::optional<double>& loss,
                     std::optional<double>& accuracy) const {
    if (data.rows() == 0) return;
    const Evaluation sums = evaluate(*program_, data, *executor_);
    const auto rows = static_cast<double>(data.rows());
    loss = sums.loss / rows;
    if (plan_.network.input.classes > 0) accuracy = static_cast<double>(sums.correct) / rows;
  }

  void close_directory() {
    const std::string status(to_text(result_.status));
    if (ledger_) ledger_->close(status, result_.steps);
    result_.statement =
        privacy_statement(plan_, {.status = status,
                                  .steps = result_.steps,
                                  .charged_steps = ledger_ ? ledger_->releases() : 0,
                                  .epsilon = result_.epsilon});
    write_statement(result_.statement);
    write_atomically(options_.directory / "model.safetensors",
                     to_safetensors(plan_.network, parameters_, model_metadata()));
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
            {"clip_norm", clip_norm_},
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

  Plan& plan_;
  const Manifest& manifest_;
  const RunOptions& options_;
  std::unique_ptr<Executor> executor_;
  RandomKey key_;
  std::shared_ptr<const RandomSource> sampler_random_;
  Mechanism mechanism_;
  std::optional<CorrelatedMechanism> correlated_;  // instead of mechanism_

  Dataset train_, test_;
  ComponentPtr<Backend> backend_;
  std::unique_ptr<Program> program_;
  // With gradient differences: hold the first iterates of this epoch and of the last one.
  std::unique_ptr<Program> anchor_, last_anchor_;
  std::vector<double> combined_noise_;  // per step, over clip norm and divisor
  SumMemory sum_memory_;
  std::vector<float> parameters_, previous_;
  std::vector<std::uint32_t> batch_;
  double clip_norm_;                 // of the last step; with adaptive clipping, of the next one
  bool has_random_iterate_ = false;  // a run that is stopped before it keeps the last one
  std::optional<double> clipped_fraction_;  // of the last step, noised; adaptive clipping only

  ComponentPtr<Accountant> accountant_;
  std::optional<Ledger> ledger_;
  std::deque<Receipt> receipts_;
  std::optional<AppendOnlyFile> metrics_file_;
  Metrics last_metrics_;
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
  if (!plan.auto_values.empty()) {
    json["auto"] = Json::object();
    for (const PlannedAuto& chosen : plan.auto_values)
      json["auto"][chosen.where] = {{"value", chosen.value}, {"reason", chosen.reason}};
  }
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
