#include "study_calls.hpp"

#include <system_error>

#include "feature_cache_call.hpp"
#include "output.hpp"
#include "privgrad/api/run_directory.hpp"
#include "privgrad/error.hpp"

namespace privgrad::tool {
namespace {

/// Adds the options that the study's call passes on to every run.
void add_common_options(ChildCall& call, const Arguments& arguments) {
  if (arguments.has("cache"))
    call.words.push_back("--cache=" + feature_folder(arguments, "cache").string());
  for (const std::string& folder : arguments.texts("plugin-dir"))
    call.words.insert(call.words.end(), {"--plugin-dir", folder});
}

/// Removes the files of an unfinished run. The run that replaces it has the same seed and therefore
/// makes exactly the same releases, so the costs of the two runs do not add up.
void clear(const std::filesystem::path& directory) {
  std::error_code failure;
  std::filesystem::remove_all(directory, failure);
  if (failure) throw IoError(directory.string() + ": cannot be removed: " + failure.message());
}

}  // namespace

std::string run_name(const core::StudyPlan& plan, const OpenRun& run) {
  return plan.arms[run.arm].arm->name + " seed " + std::to_string(run.seed);
}

RunPlace place_in(const core::StudyDirectory& directory, const core::StudyPlan& plan,
                  const OpenRun& run) {
  const std::string& arm = plan.arms[run.arm].arm->name;
  return {.manifest = directory.arm_manifest(arm),
          .lock = directory.lock_file(),
          .directory = directory.run(arm, run.seed)};
}

core::RunOptions options_at(const RunPlace& place) {
  core::RunOptions options;
  options.directory = place.directory;
  options.state = api::default_state_directory();
  return options;
}

void discard_run(const RunPlace& place) {
  const std::string left = core::discard_state(options_at(place));
  if (!left.empty()) complain("note", left);
}

ChildCall call_for(const RunPlace& place, const OpenRun& run, const Arguments& arguments) {
  ChildCall call;
  if (core::can_be_resumed(options_at(place))) {
    call.words = {"run", "--resume", place.directory.string()};
  } else {
    discard_run(place);
    clear(place.directory);
    call.words = {"run",
                  place.manifest.string(),
                  "--set",
                  "seed=" + std::to_string(run.seed),
                  "--out",
                  place.directory.string(),
                  "--locked=" + place.lock.string()};
  }
  call.words.insert(call.words.end(), {"--threads", "1", "--quiet"});
  // A run of a study always uses one process, whatever its manifest says.
  call.words.insert(call.words.end(), {"--cluster", "local"});
  add_common_options(call, arguments);
  return call;
}

std::string outcome_text(const core::StudyPlan& plan, const core::RunRecord& record) {
  const std::string& metric = plan.study->metrics.front().name;
  const auto& value = record.metrics.at(metric);
  return (record.status == "completed" ? "" : record.status + ", ") + metric + " " +
         (value ? short_number(*value) : "-") + " in " + duration_text(record.seconds);
}

std::string reason(const ChildEnd& end) {
  if (end.by_signal) {
    const char* name = ::sigabbrev_np(end.code);
    return "ended by signal " + std::to_string(end.code) +
           (name != nullptr ? " (SIG" + std::string(name) + ")" : "");
  }
  std::string last = end.error;
  while (!last.empty() && last.back() == '\n') last.pop_back();
  last.erase(0, last.rfind('\n') == last.npos ? 0 : last.rfind('\n') + 1);
  const std::string code = "exit code " + std::to_string(end.code);
  return last.empty() ? code : last + " (" + code + ")";
}

}  // namespace privgrad::tool
