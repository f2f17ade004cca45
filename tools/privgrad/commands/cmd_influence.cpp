#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "accountant_call.hpp"
#include "command.hpp"
#include "feature_cache_call.hpp"
#include "manifest_call.hpp"
#include "output.hpp"
#include "planning_display.hpp"
#include "plugins.hpp"
#include "privgrad/api/study_state.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/plan/policy.hpp"
#include "privgrad/studies/influence_study.hpp"
#include "privgrad/studies/quadratic_influence.hpp"
#include "privgrad/train/run_estimate.hpp"
#include "privgrad/trust/files.hpp"
#include "result_page.hpp"
#include "study_page.hpp"
#include "study_runs.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kMostPoints = 100'000;

/// The arguments of a call.
struct Call {
  bool by_retraining = true;
  /// Whether the influence is estimated on the manifest's own rows, without a charge.
  bool own_data = false;
  std::uint64_t points = 11;
  std::uint64_t repeats = 10;
  std::vector<double> factors{2.0, 4.0};
  fs::path directory;
};

std::vector<double> factors_of(const std::string& text) {
  std::vector<double> factors;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) {
    const double factor = number_in("factors", item, {1.0, 1e6});
    if (std::ranges::find(factors, factor) != factors.end())
      throw UsageError("--factors has " + item + " twice");
    factors.push_back(factor);
  }
  if (factors.empty()) throw UsageError("--factors is empty, expected numbers above 1 as in 2,4");
  return factors;
}

Call call_of(const Arguments& arguments, const core::Manifest& manifest) {
  Call call;
  if (arguments.has("method")) {
    const std::string& method = arguments.text("method");
    if (method != "retraining" && method != "hessian")
      throw UsageError("--method is '" + method + "', allowed are retraining and hessian");
    call.by_retraining = method == "retraining";
  }
  for (const char* option : {"points", "repeats", "factors", "jobs"}) {
    if (!call.by_retraining && arguments.has(option))
      throw UsageError(std::string("--") + option + " belongs to --method retraining");
  }
  call.own_data = arguments.has("own-data");
  if (call.own_data && arguments.has("auxiliary"))
    throw UsageError("--auxiliary and --own-data exclude each other");
  const auto whole = [&](const char* option, std::uint64_t& value, int least) {
    if (arguments.has(option))
      value = static_cast<std::uint64_t>(
          whole_number(option, arguments.text(option), least, kMostPoints));
  };
  whole("points", call.points, 2);
  whole("repeats", call.repeats, 1);
  if (arguments.has("factors")) call.factors = factors_of(arguments.text("factors"));
  call.directory = arguments.has("out") ? fs::path(arguments.text("out"))
                                        : fs::path("influence") / manifest.name;
  return call;
}

Value parsed_auxiliary(const std::string& text) {
  std::vector<Problem> problems;
  auto value = core::parse_yaml(text, problems);
  if (problems.empty() && value && std::holds_alternative<Value::Object>(value->data()))
    return *value;
  throw UsageError(
      "--auxiliary is not a data source in YAML, as in '{kind: synthetic, rows: 1000}'");
}

/// Returns a section `data` with synthetic, public rows, as many as the data set has, with the
/// shape of the model's inputs: unit Gaussians around one mean per class, or a linear response. The
/// rows replace private rows after their transforms, so only transforms that set a scale are kept;
/// these are fitted on the public rows.
Value auxiliary_data(const core::Manifest& manifest, const core::Plan& plan) {
  const ExampleShape& shape = plan.setting->network.input;
  if (shape.features.size() != 1) {
    throw UsageError("generated auxiliary data are vectors, but " + manifest.model.name() +
                     " takes examples of " + to_text(shape.features) + "; give --auxiliary");
  }
  Value data{Value::Object{}};
  data.set("kind", "synthetic");
  data.set("shape", "gaussian");
  data.set("rows", static_cast<std::int64_t>(plan.dataset_size));
  data.set("test_rows", 0);
  data.set("dimensions", static_cast<std::int64_t>(shape.features.front()));
  data.set("target", shape.classes > 0 ? "class" : "linear");
  if (shape.classes > 0) data.set("classes", static_cast<std::int64_t>(shape.classes));
  Value::List transforms;
  const Value* given = manifest.resolved.find("data")->find("transforms");
  const auto& all = std::get<Value::List>(given->data());
  for (std::size_t i = 0; i < manifest.transforms.size(); ++i) {
    const std::string& name = manifest.transforms[i].name();
    if (name == "standardize" || name == "scale_max_norm") transforms.push_back(all[i]);
  }
  data.set("transforms", std::move(transforms));
  return data;
}

std::vector<core::ManifestChange> data_changes(const Call& call, const Arguments& arguments,
                                               const core::Manifest& manifest,
                                               const core::Plan& plan) {
  if (call.own_data) return {};
  Value data = arguments.has("auxiliary") ? parsed_auxiliary(arguments.text("auxiliary"))
                                          : auxiliary_data(manifest, plan);
  core::mark_all(data, {1, 1});
  return {{"data", std::move(data), "--auxiliary"}};
}

/// Returns the warning if noise hides the differences between the estimates; otherwise "".
std::string noise_of(const Json& record) { return record.value("within_noise", ""); }

/// Returns the answer, in the format of influence.json.
Json record_of(const Call& call, const core::Manifest& manifest, std::uint64_t steps,
               const std::vector<double>& noise, const std::vector<InfluenceEstimate>& estimates) {
  Json rows = Json::array();
  for (const InfluenceEstimate& estimate : estimates) {
    rows.push_back({{"step", estimate.step},
                    {"influence", estimate.influence},
                    {"standard_error", estimate.standard_error}});
  }
  Json json{{"influence", 1},
            {"name", manifest.name},
            {"method", call.by_retraining ? "retraining" : "hessian"},
            {"data", call.own_data ? "own" : "auxiliary"},
            {"steps", steps},
            {"noise_multiplier", noise},
            {"estimates", std::move(rows)}};
  if (call.by_retraining) {
    json["repeats"] = call.repeats;
    json["factors"] = call.factors;
    json["within_noise"] = core::within_noise(estimates, call.repeats);
  }
  if (!noise_of(json).empty()) {
    json["gamma"] = nullptr;
    json["no_gamma"] = "the estimates are within noise";
    return json;
  }
  try {
    json["gamma"] = fit_exponential_influence(estimates);
  } catch (const ConfigError& problem) {
    json["gamma"] = nullptr;
    json["no_gamma"] = problem.what();
  }
  return json;
}

std::string table_of(const Json& record) {
  std::string text = record["data"] == "own"
                         ? "# unaccounted: measured on the private rows, and nothing was charged\n"
                         : "# measured on auxiliary data: nothing private was looked at\n";
  text += "step,influence,standard_error\n";
  for (const Json& row : record["estimates"]) {
    text += std::to_string(row["step"].get<std::uint64_t>()) + "," +
            format_number(row["influence"].get<double>()) + "," +
            format_number(row["standard_error"].get<double>()) + "\n";
  }
  return text;
}

std::string page_of(const Json& record, const fs::path& table) {
  Table rows({Align::right, Align::right, Align::right});
  rows.add({"step", "influence", "standard error"});
  for (const Json& row : record["estimates"]) {
    rows.add({row["step"].dump(), short_number(row["influence"].get<double>()),
              short_number(row["standard_error"].get<double>())});
  }
  std::string page = record["name"].get<std::string>() + ": influence by " +
                     record["method"].get<std::string>() + " on " +
                     record["data"].get<std::string>() + " data\n\n" + rows.text(2) + "\n";
  if (const std::string noise = noise_of(record); !noise.empty())
    return page + noise + ";\nno schedule was written\n";
  page +=
      record["gamma"].is_number()
          ? "nearest exponential: gamma " + short_number(record["gamma"].get<double>(), 6) + "\n"
          : "no exponential fits: " + record["no_gamma"].get<std::string>() + "\n";
  return page +
         "\nfor schedules.noise_multiplier:\n  {kind: dynamic, influence: {kind: estimated, "
         "file: " +
         table.string() + "}}\n";
}

/// Writes the table that schedules read. If the estimates lie within noise, no table is written,
/// because a schedule would then divide the budget by chance.
void write_table(const fs::path& table, const Json& record) {
  if (noise_of(record).empty()) return core::write_atomically(table, table_of(record));
  core::remove_file(table);
}

int finish(const Call& call, const Json& record, const Arguments& arguments) {
  const fs::path table = call.directory / "influence.csv";
  write_table(table, record);
  core::write_atomically(call.directory / "influence.json", record.dump(2) + "\n");
  write_result_page(call.directory, "estimate");
  if (record["data"] == "own") {
    complain("warning",
             "the influence was measured on private rows without a charge; plans that use it list "
             "it as unaccounted");
  }
  if (const std::string noise = noise_of(record); !noise.empty())
    complain("warning", noise + "; no schedule was written");
  print_answer(arguments, record, page_of(record, table));
  return 0;
}

/// Writes the exact influence of every step, for a quadratic loss. \returns the exit code.
int by_hessian(const Call& call, const Arguments& arguments, const core::Manifest& manifest,
               const core::Plan& plan, const Catalog& catalog) {
  const core::Manifest changed =
      core::load_manifest(arguments.operand(0), arguments.texts("set"), catalog,
                          data_changes(call, arguments, manifest, plan));
  const core::Plan on_data = core::make_plan(changed);
  const std::vector<double> influence =
      core::quadratic_influence(core::quadratic_descent_of(on_data));
  std::vector<InfluenceEstimate> estimates;
  for (std::uint64_t t = 0; t < influence.size(); ++t) estimates.push_back({t, influence[t], 0.0});
  core::make_directories(call.directory);
  return finish(call, record_of(call, manifest, plan.steps(), plan.noise_multiplier, estimates),
                arguments);
}

int by_retraining(const Call& call, const Arguments& arguments, const core::Manifest& manifest,
                  const core::Plan& plan, const Catalog& catalog) {
  const core::InfluenceQuestion question{.manifest = &manifest,
                                         .noise_multiplier = plan.noise_multiplier,
                                         .steps = core::spread_steps(plan.steps(), call.points),
                                         .factors = call.factors,
                                         .repeats = call.repeats,
                                         .changes = data_changes(call, arguments, manifest, plan)};
  const core::StudyPlan study = core::plan_study(core::influence_study(question), {}, catalog);
  const core::StudyDirectory directory(call.directory);
  api::prepare_directory(directory, study, catalog);
  if (open_runs(study, directory) > 0) {
    // All arms cost the same.
    const std::vector<double> seconds(study.arms.size(),
                                      core::estimated_seconds(study.arms.front().plan));
    if (!make_runs(study, directory, seconds, jobs_of(arguments), arguments)) return 1;
  }
  return finish(call,
                record_of(call, manifest, plan.steps(), plan.noise_multiplier,
                          core::estimated_influence(question, api::all_runs(study, directory))),
                arguments);
}

int do_influence(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  core::Manifest manifest =
      core::load_manifest(arguments.operand(0), arguments.texts("set"), host.catalog());
  if (manifest.noise_off)
    throw UsageError("the influence of noise is asked for, but privacy.noise is off");
  const core::Plan plan = make_shown_plan(manifest, arguments);
  if (plan.noise_adapts)
    throw UsageError(
        "the influence of noise is asked for, but the manifest chooses the noise during the run");
  const Call call = call_of(arguments, manifest);
  if (call.own_data) {
    core::obey_policies_unprotected(manifest,
                                    "the influence is measured on the rows without a charge");
  }
  return call.by_retraining ? by_retraining(call, arguments, manifest, plan, host.catalog())
                            : by_hessian(call, arguments, manifest, plan, host.catalog());
}

}  // namespace

Command influence_command() {
  return {
      .usage =
          {.name = "influence",
           .summary = "Estimates how much the noise of each step matters at the end, for schedule "
                      "dynamic: by repeated\ntraining with different noise in one step, on public "
                      "data of the same shape.",
           .operands = {"MANIFEST"},
           .options = {set_option(),
                       {"method", "METHOD",
                        "retraining (default), or hessian: exact, for one dense layer with squared "
                        "loss, as if nothing were clipped."},
                       {"points", "N",
                        "Number of steps to measure, if the run has so many; default 11."},
                       {"repeats", "N", "Runs of each kind; default 10."},
                       {"factors", "F,...",
                        "Factors that the noise of a step is multiplied by; default 2,4."},
                       {"auxiliary", "DATA",
                        "A public data source, in YAML; default synthetic data of the same shape "
                        "and number."},
                       {"own-data", "",
                        "Measure on the manifest's own rows. Nothing is charged for that, so plans "
                        "that use the result list it as unaccounted."},
                       {"out", "DIR",
                        "Where the estimate goes; default influence/NAME. An interrupted estimate "
                        "is continued."},
                       jobs_option(),
                       cache_option(),
                       {"json", "", "Print influence.json on standard output."},
                       policy_option(),
                       plugin_dir_option(),
                       quiet_option()},
           .details =
               "Leaves influence.csv, which {kind: dynamic, influence: {kind: estimated, file: "
               "...}} reads (kind: file,\nif every step was measured), influence.json and a page "
               "with a chart, report.html. Estimates that chance\ncould have made leave no "
               "influence.csv. The runs are those of a study (docs/studies.md), which an "
               "interrupted\ncall continues. docs/algorithms/dynamic-budget.md says how it is "
               "done.",
           .examples = {"privgrad influence m.yaml",
                        "privgrad influence m.yaml --points 21 --repeats 30 --jobs 2",
                        "privgrad influence m.yaml --method hessian --json"}},
      .run = do_influence};
}

}  // namespace privgrad::tool
