#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "cluster_call.hpp"
#include "command.hpp"
#include "feature_cache_call.hpp"
#include "manifest_call.hpp"
#include "output.hpp"
#include "planning_display.hpp"
#include "plugins.hpp"
#include "privgrad/api/lock_text.hpp"
#include "privgrad/api/run_directory.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/host/lock_file.hpp"
#include "privgrad/plan/policy.hpp"
#include "privgrad/train/resumed_plan.hpp"
#include "progress.hpp"
#include "result_page.hpp"
#include "run_report.hpp"
#include "stop_signals.hpp"
#include "streaming_display.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

constexpr int kMostThreads = 4096;

std::optional<host::LockFile> requested_lock(const Arguments& arguments) {
  if (!arguments.has("locked")) return std::nullopt;
  const std::string& named = arguments.text("locked");
  const fs::path beside = fs::path(arguments.operand(0)).parent_path() / "privgrad.lock";
  return host::read_lock_file(named.empty() ? beside : fs::path(named));
}

/// Before training, refuses a directory name that is not UTF-8, because the summary (JSON) contains
/// the name.
void check_utf8(const std::string& option, const std::string& directory) {
  try {
    (void)nlohmann::json(directory).dump();
  } catch (const nlohmann::json::exception&) {
    throw UsageError("--" + option + ": the name of the run directory is not UTF-8 text");
  }
}

/// Tells the user if the run lacks a commitment to its data, or checkpoints.
void complain_about(const core::RunResult& result) {
  if (!result.data.why_not.empty())
    complain("note", "the run has no commitment to its data: " + result.data.why_not);
  if (!result.no_checkpoints.empty())
    complain("note", "the run left no checkpoints to resume it from: " + result.no_checkpoints);
}

core::RunResult train(const core::Plan& plan, core::RunOptions options, bool quiet) {
  const core::Manifest& manifest = *plan.manifest;
  ProgressDisplay display(manifest.noise_off ? std::nullopt : manifest.target_epsilon, quiet);
  options.on_progress = [&](const core::Progress& progress) { display.show(progress); };
  const StopSignals signals;
  options.stop = &signals.flag();
  return core::run(plan, options);
}

core::RunResult train_in_directory(const core::Plan& plan, core::RunOptions options,
                                   const Arguments& arguments) {
  const bool quiet = arguments.has("quiet");
  if (arguments.has("out")) {
    options.directory = arguments.text("out");
    return train(plan, std::move(options), quiet);
  }
  const api::DefaultRunDirectory directory(plan.manifest->name);
  options.directory = directory.path();
  return train(plan, std::move(options), quiet);
}

/// Returns the remedy for losses and parameters that are not finite.
std::string remedy(const core::Plan& plan) {
  const std::size_t vocabulary = vocabulary_of(plan.setting->whole);
  if (vocabulary == 0) return "lower schedules.learning_rate";
  return "are all features tokens from 0 to " + std::to_string(vocabulary - 1) +
         ", and -1 where there is none? If so, lower schedules.learning_rate";
}

/// Explains why a run ended before its last step. \returns the exit code.
int conclude(const core::Plan& plan, const core::RunResult& result, const Arguments& arguments) {
  const std::string reached =
      "step " + std::to_string(result.steps) + " of " + std::to_string(plan.steps());
  switch (result.status) {
    case core::RunStatus::completed:
      return 0;
    case core::RunStatus::budget_exhausted:
      complain("note",
               "the budget was spent after " + reached + "; the model is the one that it paid for");
      return 0;
    case core::RunStatus::stopped_early:
      complain("note", "stopped early after " + reached + ": the last " +
                           std::to_string(plan.report->patience) +
                           " released accuracies were no better than an earlier one; the guarantee "
                           "is that of all steps");
      return 0;
    case core::RunStatus::interrupted:
      if (arguments.has("finish")) {
        complain("note", "ended after " + reached + "; the run directory holds the model so far");
        return 0;
      }
      if (result.can_be_resumed) {
        const std::string state =
            arguments.has("state") ? " --state " + arguments.text("state") : "";
        complain("error", "interrupted after " + reached + "; resume with: privgrad run --resume " +
                              result.summary.at("run_dir").get<std::string>() + state);
        return 1;
      }
      complain("error",
               "interrupted after " + reached + "; the run directory holds the model so far");
      return 1;
    case core::RunStatus::untrained:
      complain("error", "no client's model ever arrived in " + reached +
                            "; the model is the initial one, and the clients' charges stand");
      return 1;
    case core::RunStatus::unfinished:  // runs never return this status
      break;
    case core::RunStatus::diverged:
      complain("error",
               "diverged after " + reached + ": the " +
                   (core::has_finite_losses(result.metrics) ? "parameters are no longer finite"
                                                            : "loss of the model is not finite") +
                   "; " + remedy(plan));
      return 1;
  }
  return 1;
}

core::RunOptions common_options(const Arguments& arguments) {
  core::RunOptions options;
  options.threads = arguments.has("threads")
                        ? whole_number("threads", arguments.text("threads"), 1, kMostThreads)
                        : core::available_threads();
  options.state = arguments.has("state") ? fs::absolute(arguments.text("state"))
                                         : api::default_state_directory();
  return options;
}

fs::path directory_of(const core::RunResult& result) {
  return result.summary.at("run_dir").get<std::string>();
}

int show(const core::Plan& plan, const core::RunResult& result, const Arguments& arguments) {
  complain_about(result);
  if (!result.can_be_resumed) write_result_page(directory_of(result), "run");
  if (arguments.has("json")) {
    nlohmann::json json = result.summary;
    json.erase("test_evaluation");  // too long to print; summary.json and privgrad evaluate show it
    if (result.resumed_at) json["resumed_at"] = *result.resumed_at;
    print_json(json);
  } else if (!result.can_be_resumed) {
    print_run_report(plan, result);
  }
  return conclude(plan, result, arguments);
}

/// Checks that the plugin that carries private sums between processes has passed its tests or is
/// allowed explicitly, and that the site allows it.
/// \throws PrivacyError if not.
void check_tested(const core::Manifest& manifest, const RequestedCluster& processes) {
  if (processes.plugin == nullptr) return;
  if (const auto why = core::why_refused(manifest, *processes.plugin)) throw PrivacyError(*why);
  core::obey_policies(*processes.plugin);
}

/// Does the work of every process except process 0. These processes ignore stop signals: process 0
/// ends them.
int work(const core::Manifest& manifest, const core::RunOptions& options) {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  core::work_for_others(manifest, options);
  return 0;
}

/// Continues a run as it began: with its own manifest and the plugins of its lock file.
int do_resume(const Arguments& arguments) {
  for (const char* option : {"set", "out", "locked"}) {
    if (arguments.has(option)) {
      throw UsageError("--" + std::string(option) +
                       " changes a run, and --resume continues one unchanged; give one of the two");
    }
  }
  core::RunOptions options = common_options(arguments);
  const auto cache = requested_cache(arguments);
  options.features = cache.get();
  options.directory = arguments.text("resume");
  options.resume = true;
  options.finish = arguments.has("finish");
  // The earlier process was killed, or the disk was full, between the summary and the page.
  if (fs::exists(options.directory / "summary.json") &&
      !fs::exists(options.directory / "report.html"))
    write_result_page(options.directory, "run");
  core::check_resumable(options);
  const host::PluginHost host = core::with_own_files([&] {
    return load_plugins(arguments, host::read_lock_file(options.directory / "privgrad.lock"));
  });
  const RequestedCluster processes = requested_cluster(arguments);
  check_launched(processes);
  Cluster* const cluster = options.cluster = processes.cluster.get();
  return with_cluster(cluster, [&] {
    core::Manifest manifest = core::with_own_files([&] {
      return core::load_manifest(options.directory / "manifest.yaml", {}, host.catalog());
    });
    show_streaming(manifest, arguments);
    check_tested(manifest, processes);
    options.lock = api::lock_text({&manifest});
    if (cluster != nullptr && cluster->rank() != 0) return work(manifest, options);
    const core::Plan plan = core::with_own_files(
        [&] { return core::make_resumed_plan(manifest, options.directory, options.state); });
    std::signal(SIGPIPE, SIG_IGN);
    return show(plan, train(plan, std::move(options), arguments.has("quiet")), arguments);
  });
}

int do_run(const Arguments& arguments) {
  if (arguments.has("resume")) return do_resume(arguments);
  if (arguments.has("finish"))
    throw UsageError("--finish ends a run that is resumed; give --resume DIR, too");
  if (arguments.has("out")) check_utf8("out", arguments.text("out"));
  core::RunOptions options = common_options(arguments);
  const auto cache = requested_cache(arguments);
  options.features = cache.get();
  const host::PluginHost host = load_plugins(arguments, requested_lock(arguments));
  RequestedCluster processes = requested_cluster(arguments);
  std::optional<core::Manifest> manifest;
  const auto load = [&] {
    manifest.emplace(
        core::load_manifest(arguments.operand(0), arguments.texts("set"), host.catalog()));
    show_streaming(*manifest, arguments);
    return 0;
  };
  with_cluster(processes.cluster.get(), load);
  if (!arguments.has("cluster")) processes = requested_cluster(*manifest);
  check_launched(processes);
  Cluster* const cluster = options.cluster = processes.cluster.get();
  return with_cluster(cluster, [&] {
    check_tested(*manifest, processes);
    options.lock = api::lock_text({&*manifest});
    if (cluster != nullptr && cluster->rank() != 0) return work(*manifest, options);
    for (const std::string& hash : core::allowed_for_nothing(*manifest))
      complain("note", "allow.plugins: " + hash + " is of no plugin that this manifest uses");
    const core::Plan plan = make_shown_plan(*manifest, arguments);
    warn_of(plan);
    if (cache != nullptr && !core::has_features_to_keep(*plan.setting) && !manifest->streaming) {
      cache->note(
          "--cache keeps the outputs of frozen layers and of costly transforms, and this manifest "
          "has neither");
    }
    // If the reader of the output stops (`privgrad run ... | head`), the run goes on, so that the
    // model is not lost.
    std::signal(SIGPIPE, SIG_IGN);
    const core::RunResult result = train_in_directory(plan, std::move(options), arguments);
    return show(plan, result, arguments);
  });
}

}  // namespace

Command run_command() {
  return {
      .usage =
          {.name = "run",
           .summary = "Trains the model of a manifest and leaves a run directory: the resolved "
                      "manifest, the\nmodel, its metrics, the ledger of what was spent, and the "
                      "lock file of the plugins.",
           .operands = {"MANIFEST"},
           .options =
               {set_option(),
                {"out", "DIR", "The run directory, new or empty; default runs/NAME-TIME."},
                {"threads", "N",
                 "Threads to compute with; default all. The result does not depend on it."},
                {"state", "DIR",
                 "The folder for private files, outside the run directory: the opening of the "
                 "run's commitment to its data, and its checkpoints until it ends; default "
                 "$XDG_STATE_HOME/privgrad, else ~/.local/state/privgrad."},
                cluster_option(),
                cache_option(),
                {"resume", "DIR",
                 "Instead of MANIFEST: continue the interrupted run of DIR from its last "
                 "checkpoint."},
                {"finish", "",
                 "With --resume: end the run where it was interrupted, with the model so far."},
                {"json", "", "Print the summary as JSON and nothing else on standard output."},
                policy_option(),
                plugin_dir_option(),
                {.name = "locked",
                 .value = "FILE",
                 .doc = "Load only the plugins of this lock file, unchanged; default the "
                        "privgrad.lock beside the manifest.",
                 .implied = ""},
                quiet_option()},
           .details =
               "Progress goes to standard error. Ctrl-C (SIGINT) or SIGTERM ends the run after its "
               "step, with\nstatus \"interrupted\" and exit code 1, and leaves a checkpoint; a "
               "second one ends it at once.\nWithout checkpoints (checkpoint: off), the "
               "model so far is kept. docs/resume.md describes how a\nrun is resumed, and what is "
               "charged for it.\nWhen the budget does not pay for all steps the run "
               "ends with the model it paid for, status\n\"budget_exhausted\" and exit code 0; so "
               "does a run that stops because its released\naccuracies no longer improve "
               "(report.train_accuracy.patience), status \"stopped_early\".\n\n"
               "exit codes: 0 done, 1 interrupted, diverged, untrained or a plugin failed, 2 the "
               "call or the "
               "manifest is\nwrong, 3 refused for privacy, 4 a file could not be read or written",
           .examples = {"privgrad run examples/manifests/quickstart.yaml",
                        "privgrad run m.yaml --set privacy.target_epsilon=2 --set seed=7 --out "
                        "runs/e2",
                        "privgrad run --resume runs/e2",
                        "privgrad run runs/e2/manifest.yaml --locked --json > summary.json"},
           .instead = "resume"},
      .run = do_run};
}

}  // namespace privgrad::tool
