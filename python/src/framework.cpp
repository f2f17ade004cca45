#include "framework.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "keeping.hpp"
#include "privgrad/api/auditing.hpp"
#include "privgrad/api/check_components.hpp"
#include "privgrad/api/component_json.hpp"
#include "privgrad/api/lock_text.hpp"
#include "privgrad/api/model_call.hpp"
#include "privgrad/api/model_place.hpp"
#include "privgrad/api/run_directory.hpp"
#include "privgrad/api/suggestion.hpp"
#include "privgrad/api/verification.hpp"
#include "privgrad/cluster.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/data/open_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/host/blas.hpp"
#include "privgrad/host/lock_file.hpp"
#include "privgrad/host/search_path.hpp"
#include "privgrad/manifest/data_section.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/plan/remarks.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/report/report.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/studies/study_schema.hpp"
#include "privgrad/train/resumed_plan.hpp"
#include "privgrad/trust/event_json.hpp"
#include "prototypes.hpp"

namespace privgrad::python {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Each of Python's own libraries contains an OpenBLAS, which reads these variables when it is
/// loaded. Therefore the values that the plugins need are set only while plugins are loaded.
class BlasVariables {
 public:
  BlasVariables() {
    host::limit_blas_threads();
    host::choose_blas_kernels();
  }
  ~BlasVariables() {
    restore("OPENBLAS_NUM_THREADS", threads_);
    restore("OPENBLAS_CORETYPE", kernels_);
  }
  BlasVariables(const BlasVariables&) = delete;
  BlasVariables& operator=(const BlasVariables&) = delete;

 private:
  static std::optional<std::string> value_of(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  }
  static void restore(const char* name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name, value->c_str(), 1);
    } else {
      ::unsetenv(name);
    }
  }
  std::optional<std::string> threads_ = value_of("OPENBLAS_NUM_THREADS");
  std::optional<std::string> kernels_ = value_of("OPENBLAS_CORETYPE");
};

host::PluginHost load(const std::vector<fs::path>& plugin_dirs, const fs::path& program,
                      const std::optional<host::LockFile>& lock = std::nullopt) {
  const BlasVariables variables;
  return host::find_plugins({.plugin_dirs = plugin_dirs, .lock = lock, .program = program});
}

int threads_of(int wanted) { return wanted > 0 ? wanted : core::available_threads(); }

Json progress_json(const core::Progress& progress) {
  return {{"step", progress.step},
          {"steps", progress.steps},
          {"epsilon", core::json_number(progress.epsilon)},
          {"metrics", core::to_json(progress.metrics)}};
}

core::RunResult train(const core::Plan& plan, core::RunOptions options, const Watch& watch) {
  options.stop = watch.stop;
  options.on_progress = [&](const core::Progress& progress) {
    if (watch.listener) watch.listener(progress_json(progress).dump());
  };
  return core::run(plan, options);
}

/// Returns the notes that the command would print beside its result, one per line.
Json notes_of(const core::Plan& plan, const core::RunResult& result) {
  Json notes = core::remarks(plan, plan.epsilon().value);
  if (plan.manifest->mode == core::Mode::research) {
    for (const std::string& remark : plan.setting->info.remarks) notes.push_back(remark);
  }
  if (!result.data.why_not.empty())
    notes.push_back("the run has no commitment to its data: " + result.data.why_not);
  if (!result.no_checkpoints.empty())
    notes.push_back("the run left no checkpoints to resume it from: " + result.no_checkpoints);
  return notes;
}

std::string conclude(const core::Plan& plan, const core::RunResult& result,
                     const Keeping& keeping) {
  Json json = result.summary;
  json.erase("test_evaluation");  // as in `privgrad run --json`
  if (result.resumed_at) json["resumed_at"] = *result.resumed_at;
  Json notes = notes_of(plan, result);
  for (const std::string& note : keeping.notes()) notes.push_back(note);
  if (!result.can_be_resumed) {
    try {
      report::write_report(result.summary.at("run_dir").get<std::string>());
    } catch (const std::exception& problem) {
      notes.push_back("the run has no report.html: " + std::string(problem.what()));
    }
  }
  return Json{{"summary", std::move(json)},
              {"interrupted", result.status == core::RunStatus::interrupted},
              {"can_be_resumed", result.can_be_resumed},
              {"planned_steps", plan.steps()},
              {"notes", std::move(notes)}}
      .dump();
}

}  // namespace

Framework::Framework(const std::vector<std::string>& plugin_dirs, std::string program)
    : plugin_dirs_(plugin_dirs.begin(), plugin_dirs.end()),
      program_(std::move(program)),
      host_(python::load(plugin_dirs_, program_)),
      with_prototypes_(python::load(plugin_dirs_, program_)),
      catalog_(with_prototypes_.catalog()) {
  add_prototypes(catalog_);
}

namespace {

void refuse_prototypes(const core::Manifest& loaded) {
  if (loaded.mode == core::Mode::research) return;
  // Release mode already requires a record of tests, and allow.plugins must not replace it for
  // these components.
  for (const core::ComponentUse* use : core::components_of(loaded)) {
    if (use->component->plugin->name == kPrototypes) {
      throw core::privacy_error_at(loaded, use->where,
                                   "is a prototype in Python, which is for research mode alone");
    }
  }
}

}  // namespace

core::Manifest Framework::load(const ManifestText& manifest, const Catalog& catalog) const {
  core::Manifest loaded =
      manifest.is_file
          ? core::load_manifest(manifest.text, manifest.overrides, catalog)
          : core::parse_manifest(manifest.text, manifest.name, manifest.overrides, catalog);
  refuse_prototypes(loaded);
  return loaded;
}

core::Manifest Framework::load_without_data(const ManifestText& manifest) const {
  const fs::path file = manifest.is_file ? manifest.text : manifest.name;
  const std::string text = manifest.is_file ? core::read_yaml_file(file) : manifest.text;
  core::Manifest loaded = core::parse_manifest(text, file, manifest.overrides, catalog(),
                                               core::DataFiles::may_be_missing);
  refuse_prototypes(loaded);
  return loaded;
}

std::string Framework::account(const std::optional<std::string>& accountant,
                               const std::string& adjacency, const std::string& event,
                               std::optional<double> delta, std::optional<double> epsilon) const {
  const Event asked = core::event_from_json(event, "event");
  const Adjacency neighbours = adjacency_from_text(adjacency);
  if (!accountant) {
    const auto [call, made] = api::tightest_account(neighbours, catalog(), asked, delta, epsilon);
    return api::to_json(call, made).dump();
  }
  const api::AccountantCall call(*accountant, neighbours, catalog());
  return api::to_json(call, api::account(call, asked, delta, epsilon)).dump();
}

std::string Framework::calibrate(const std::optional<std::string>& accountant,
                                 const std::string& adjacency,
                                 const api::CalibrationQuestion& question) const {
  const Adjacency neighbours = adjacency_from_text(adjacency);
  if (!accountant) {
    const auto [call, made] = api::tightest_calibration(neighbours, catalog(), question);
    return api::to_json(call, made).dump();
  }
  const api::AccountantCall call(*accountant, neighbours, catalog());
  return api::to_json(call, api::calibrate(call, question)).dump();
}

std::string Framework::noise_error(const std::vector<ManifestText>& manifests,
                                   const api::NoiseQuestion& question) const {
  if (manifests.size() == 1) {
    const auto read = [&](const std::vector<std::string>& more) {
      ManifestText manifest = manifests.front();
      manifest.overrides.insert(manifest.overrides.end(), more.begin(), more.end());
      return load(manifest, catalog());
    };
    return to_json(api::noise_of_mechanisms(read, question)).dump();
  }
  std::vector<std::string> names;
  std::vector<core::Manifest> loaded;
  for (const ManifestText& manifest : manifests) {
    names.push_back(manifest.is_file ? manifest.text : manifest.name);
    loaded.push_back(load(manifest, catalog()));
  }
  return to_json(api::noise_of_two(names, loaded, question)).dump();
}

std::string Framework::plugins() const { return api::list_json(host_.catalog()).dump(); }

std::string Framework::refused() const {
  nlohmann::json list = nlohmann::json::array();
  for (const Catalog::Refusal& refusal : catalog_.refused())
    list.push_back({{"path", refusal.file}, {"why", refusal.why}});
  return list.dump();
}

std::string Framework::describe(const std::string& component) const {
  return api::description_json(api::find_component(host_.catalog(), component)).dump();
}

std::string Framework::schema(bool of_studies) const {
  return (of_studies ? core::study_schema(host_.catalog()) : core::manifest_schema(host_.catalog()))
      .dump();
}

void Framework::validate(const ManifestText& manifest) const {
  api::check_components(load(manifest, catalog()));
}

std::string Framework::plan(const ManifestText& manifest,
                            const std::optional<std::string>& cache) const {
  const Keeping keeping(cache);
  core::Manifest loaded = load(manifest, catalog());
  keeping.of_streamed_rows(loaded);
  const core::Plan plan = core::make_plan(loaded);
  Json notes = core::remarks(plan, plan.epsilon().value);
  if (loaded.mode == core::Mode::research) {
    for (const std::string& remark : plan.setting->info.remarks) notes.push_back(remark);
  }
  for (const std::string& note : keeping.notes()) notes.push_back(note);
  return Json{{"plan", core::to_json(core::shown_facts(plan))},
              {"manifest", core::to_yaml(loaded.resolved)},
              {"name", loaded.name},
              {"notes", std::move(notes)}}
      .dump();
}

std::string Framework::data_section(const ManifestText& manifest) const {
  const core::Manifest loaded = load(manifest, catalog());
  const Value* section = loaded.resolved.find("data");
  return section != nullptr ? core::value_to_json(*section).dump() : "null";
}

std::string Framework::suggest(const std::string& section) const {
  const core::DataSection parsed =
      core::parse_data_section(section, "data", fs::current_path(), catalog());
  const auto source = core::open_source(parsed.data, std::nullopt);
  const api::Draft draft = api::with_suggestions(Value{Value::Object{}},
                                                 parsed.data.component->factory.info.name, *source);
  return Json{{"data", core::value_to_json(draft.section)}, {"notes", draft.notes}}.dump();
}

std::string Framework::reading(const std::string& model) const {
  const core::ModelFile file = core::read_model_file(api::model_file_of(model));
  Json reading{{"classes", file.classes.size()}, {"source", nullptr}, {"params", Json::object()}};
  if (file.data) {
    reading["source"] = file.data->name;
    reading["params"] = core::value_to_json(file.data->params);
  }
  return reading.dump();
}

namespace {

/// A call uses one process. If a manifest asks for several and a launcher started several, each
/// process would make the whole run, in the same directory.
void refuse_processes(const core::Manifest& manifest) {
  if (!manifest.cluster.is_given()) return;
  const std::size_t processes = manifest.cluster.make<Cluster>()->size();
  if (processes < 2) return;
  const std::string count = std::to_string(processes);
  throw ConfigError("cluster: the manifest asks for the " + count +
                    " processes that were started together, and a call in Python is made by one; "
                    "make this run by the command: mpirun -np " +
                    count +
                    " privgrad run MANIFEST, or say cluster=\"local\" to make it in each process "
                    "alone");
}

/// Adds a note, like the command, that there is nothing to store.
void note_what_is_not_kept(const core::Plan& plan, const Keeping& keeping) {
  if (keeping.features() == nullptr || plan.manifest->streaming ||
      core::has_features_to_keep(*plan.setting))
    return;
  keeping.note(
      "cache keeps the outputs of frozen layers and of costly transforms, and this manifest has "
      "neither");
}

}  // namespace

std::string Framework::resumed(const RunCall& call, core::RunOptions options,
                               const Keeping& keeping, const Watch& watch) const {
  options.directory = call.directory.value();
  options.resume = true;
  options.finish = call.finish;
  core::check_resumable(options);
  const host::PluginHost locked = core::with_own_files([&] {
    return python::load(plugin_dirs_, program_,
                        host::read_lock_file(options.directory / "privgrad.lock"));
  });
  core::Manifest manifest = core::with_own_files([&] {
    return core::load_manifest(options.directory / "manifest.yaml", {}, locked.catalog());
  });
  // As in the command, a run continues in the processes of this call, whatever processes began
  // it.
  keeping.of_streamed_rows(manifest);
  options.lock = api::lock_text({&manifest});
  const core::Plan plan = core::with_own_files(
      [&] { return core::make_resumed_plan(manifest, options.directory, options.state); });
  return conclude(plan, train(plan, std::move(options), watch), keeping);
}

std::string Framework::run(const RunCall& call, const Watch& watch) const {
  const Keeping keeping(call.cache);
  core::RunOptions options;
  options.threads = threads_of(call.threads);
  options.state = call.state ? fs::absolute(*call.state) : api::default_state_directory();
  options.features = keeping.features();
  if (!call.manifest) return resumed(call, std::move(options), keeping, watch);
  std::optional<host::PluginHost> locked;
  if (call.locked)
    locked.emplace(python::load(plugin_dirs_, program_, host::read_lock_file(*call.locked)));
  core::Manifest manifest = load(*call.manifest, locked ? locked->catalog() : catalog());
  if (!call.alone) refuse_processes(manifest);
  keeping.of_streamed_rows(manifest);
  options.lock = api::lock_text({&manifest});
  for (const std::string& hash : core::allowed_for_nothing(manifest))
    keeping.note("allow.plugins: " + hash + " is of no plugin that this manifest uses");
  const core::Plan plan = core::make_plan(manifest);
  note_what_is_not_kept(plan, keeping);
  if (call.directory) {
    options.directory = *call.directory;
    return conclude(plan, train(plan, std::move(options), watch), keeping);
  }
  const api::DefaultRunDirectory directory(manifest.name);
  options.directory = directory.path();
  return conclude(plan, train(plan, std::move(options), watch), keeping);
}

std::string Framework::made(const core::Plan& plan, core::RunOptions options, const Watch& watch) {
  return conclude(plan, train(plan, std::move(options), watch), Keeping(std::nullopt));
}

std::string Framework::verify(const VerifyCall& call) const {
  const auto path = [](const std::optional<std::string>& text) {
    return text ? std::optional<fs::path>(*text) : std::nullopt;
  };
  const api::VerifyRequest request{.directory = call.directory,
                                   .client = call.client,
                                   .clients = {call.client_dirs.begin(), call.client_dirs.end()},
                                   .data = call.data,
                                   .audit = call.audit,
                                   .opening = path(call.opening),
                                   .trusted = path(call.trusted),
                                   .sign = path(call.sign),
                                   .new_key = call.new_key};
  const core::RecordDirectory directory(request.directory);
  return api::to_json(api::verify(request, directory, catalog())).dump();
}

PredictedRows Framework::predict(const std::string& model, const std::optional<std::string>& data,
                                 const std::optional<std::string>& split,
                                 std::vector<std::string> keep, int threads) const {
  const api::ModelCall call = api::open_model_call({.model = model,
                                                    .data = data,
                                                    .split = split,
                                                    .keep = std::move(keep),
                                                    .threads = threads_of(threads),
                                                    .dashes = ""},
                                                   catalog());
  const core::Predictions made = call.model->predict(call.rows);
  PredictedRows result;
  result.rows = made.rows();
  result.are_probabilities = made.has_probabilities();
  result.columns = result.are_probabilities ? made.classes : made.outputs;
  result.numbers.reserve(result.rows * result.columns);
  for (std::size_t row = 0; row < result.rows; ++row) {
    if (result.are_probabilities) {
      const std::vector<double> all = made.probabilities(row);
      result.numbers.insert(result.numbers.end(), all.begin(), all.end());
    } else {
      const auto all = made.of(row);
      result.numbers.insert(result.numbers.end(), all.begin(), all.end());
    }
    if (made.classes == 0) continue;
    const auto predicted = made.predicted(row);
    result.predicted.push_back(predicted ? static_cast<std::int64_t>(*predicted) : -1);
  }
  Json json = api::model_call_json(call);
  json["classes"] = call.model->file().classes;
  json["remarks"] = call.remarks;
  // Invalid bytes are replaced, because the texts of a table need not be UTF-8.
  result.json = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return result;
}

std::string Framework::evaluate(const std::string& model, const std::optional<std::string>& data,
                                const std::optional<std::string>& split, int threads) const {
  const api::ModelCall call = api::open_model_call(
      {.model = model, .data = data, .split = split, .threads = threads_of(threads), .dashes = ""},
      catalog());
  return api::evaluate(call).dump();
}

std::string Framework::audit(const AuditCall& call, const Watch& watch) const {
  core::AuditOptions options;
  if (call.canaries) options.canaries = *call.canaries;
  if (call.runs) options.runs = *call.runs;
  if (call.runs || call.neighbours) options.kind = core::AuditKind::repeated;
  if (call.neighbours) options.neighbours = api::neighbours_of(*call.neighbours, "neighbours");
  options.exposure = call.exposure;
  if (call.confidence) options.confidence = *call.confidence;
  options.threads = threads_of(call.threads);
  options.stop = watch.stop;
  options.on_run = [&](std::uint64_t run, std::uint64_t runs) {
    if (watch.listener) watch.listener(Json{{"run", run}, {"runs", runs}}.dump());
  };
  if (call.manifest) {
    const core::Manifest manifest = load(*call.manifest, catalog());
    return core::to_json(core::audit(core::make_plan(manifest), options)).dump();
  }
  return api::audit_directory(core::RecordDirectory(fs::path(call.directory)), catalog(), options)
      .record.dump();
}

}  // namespace privgrad::python
