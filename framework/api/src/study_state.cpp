#include "privgrad/api/study_state.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "privgrad/api/lock_text.hpp"
#include "privgrad/host/lock_file.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/studies/scored_rows.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::api {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kElsewhere =
    ", and runs of different programs cannot be compared; give another --out, or remove this "
    "directory";

std::string text_of(const fs::path& file) {
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  return core::read_whole(file, kMostBytes);
}

void check_program(const core::StudyDirectory& directory, const Json& planned) {
  const Json before = Json::parse(text_of(directory.study_json()), nullptr, false);
  if (!before.is_object() || !before.contains("privgrad")) {
    throw ConfigError(directory.study_json().string() +
                      ": is not what this program writes; give another --out");
  }
  if (before.at("privgrad") == planned.at("privgrad")) return;
  throw ConfigError(directory.study_json().string() + ": was begun by privgrad " +
                    before.at("privgrad").dump() + ", this is " + planned.at("privgrad").dump() +
                    kElsewhere);
}

/// Checks that the plugins of existing runs have not changed. Plugins that only the old or only the
/// new study uses are allowed.
void check_plugins(const core::StudyDirectory& directory, const Catalog& catalog) {
  if (!fs::exists(directory.lock_file())) return;
  for (const host::LockedPlugin& locked : host::read_lock_file(directory.lock_file()).plugins) {
    for (const Component* component : catalog.loaded()) {
      const PluginIdentity& now = *component->plugin;
      if (now.name != locked.name || now.sha256 == locked.sha256) continue;
      throw ConfigError(directory.lock_file().string() + ": the plugin " + locked.name +
                        " is not the one that this study began with (SHA-256 " + locked.sha256 +
                        ", now " + now.sha256 + ")" + kElsewhere);
    }
  }
}

/// Checks that the manifest in a run's directory equals the arm's present manifest.
void check_run(const core::StudyDirectory& directory, const core::PlannedArm& arm,
               const std::string& arm_text, std::uint64_t seed, const Catalog& catalog) {
  const std::string& name = arm.arm->name;
  if (!directory.finished(name, seed)) return;
  const fs::path file = directory.run(name, seed) / "manifest.yaml";
  const core::Manifest expected = core::parse_manifest(arm_text, directory.arm_manifest(name),
                                                       {"seed=" + std::to_string(seed)}, catalog);
  if (text_of(file) == core::to_yaml(expected.resolved)) return;
  throw ConfigError(file.string() + ": differs from the present arm " + name + " is now" +
                    kElsewhere);
}

bool has_runs(const core::StudyDirectory& directory) {
  std::error_code failure;
  for (const auto& arm : fs::directory_iterator(directory.path() / "runs", failure)) {
    for (const auto& run : fs::directory_iterator(arm.path(), failure)) {
      if (fs::exists(run.path() / "summary.json", failure)) return true;
    }
  }
  return false;
}

/// Returns the value of a key that must not change once there are runs; null if the study lacks the
/// key. Seeds without a rule may be added later, so they count as null.
Value early_part(const Value& study, const char* key) {
  const Value* node = study.find(key);
  const bool is_number_of_seeds =
      std::string_view(key) == "seeds" && node != nullptr && node->find("until") == nullptr;
  return node == nullptr || is_number_of_seeds ? Value() : *node;
}

/// Returns a part that the study had before and now lacks: an arm, a baseline, a seed or a metric;
/// "" if nothing is missing.
std::string left_out(const core::Study& before, const core::Study& now) {
  for (const core::Arm& arm : before.arms) {
    const auto same =
        std::ranges::find_if(now.arms, [&](const core::Arm& one) { return one.name == arm.name; });
    if (same == now.arms.end()) return "the arm " + arm.name;
    const std::string& baseline = before.baseline_of(arm).name;
    if (now.baseline_of(*same).name != baseline) return "the baseline " + baseline;
  }
  // With a SeedRule, the rule decides how many of the seeds 1, 2, ... are used.
  for (const std::uint64_t seed : before.seed_rule ? std::vector<std::uint64_t>() : before.seeds) {
    if (std::ranges::find(now.seeds, seed) == now.seeds.end())
      return "the seed " + std::to_string(seed);
  }
  for (std::size_t i = 0; i < before.metrics.size(); ++i) {
    const std::string& metric = before.metrics[i].name;
    if (i >= now.metrics.size() || now.metrics[i].name != metric)
      return "the metric " + metric + (i == 0 ? " as the first" : " at its place");
  }
  return "";
}

Value parsed(const std::string& text, const fs::path& file) {
  std::vector<Problem> problems;
  if (auto value = core::parse_yaml(text, problems)) return std::move(*value);
  throw ConfigError(file.string() + ": is not what this program writes; give another --out");
}

}  // namespace

void keep_question(const core::StudyDirectory& directory, const std::string& question) {
  const fs::path file = directory.study_yaml();
  if (fs::exists(file) && has_runs(directory)) {
    const Value before = parsed(text_of(file), file), now = parsed(question, file);
    for (const char* key : {"seeds", "equivalence", "search"}) {
      if (core::to_yaml(early_part(before, key)) == core::to_yaml(early_part(now, key))) continue;
      throw ConfigError(file.string() + ": the comparison already has runs, which were made for " +
                        (early_part(before, key).is_null() ? "no such " : "another ") +
                        (std::string_view(key) == "seeds" ? "rule of seeds" : key) +
                        "; what its numbers are corrected for is settled before them: give "
                        "another --out, or remove this directory");
    }
    const std::string missing =
        left_out(core::parse_study(text_of(file), file), core::parse_study(question, file));
    if (!missing.empty()) {
      throw ConfigError(file.string() + ": the comparison already has runs, and now lacks " +
                        missing +
                        "; what is left out after its runs are seen makes the rest look better "
                        "than it is: give another --out, or remove this directory");
    }
  }
  core::write_atomically(file, question);
}

void prepare_directory(const core::StudyDirectory& directory, const core::StudyPlan& plan,
                       const Catalog& catalog) {
  const Json planned = core::to_json(plan);
  if (fs::exists(directory.study_json())) {
    check_program(directory, planned);
    check_plugins(directory, catalog);
  }
  std::vector<const core::Manifest*> manifests;
  std::vector<std::string> texts;
  for (const core::PlannedArm& arm : plan.arms) {
    manifests.push_back(arm.manifest.get());
    texts.push_back(core::to_yaml(arm.manifest->resolved));
    for (const std::uint64_t seed : plan.study->seeds) {
      check_run(directory, arm, texts.back(), seed, catalog);
    }
  }
  core::write_atomically(directory.lock_file(), lock_text(manifests));
  for (std::size_t a = 0; a < plan.arms.size(); ++a) {
    const core::PlannedArm& arm = plan.arms[a];
    core::make_directories(directory.arm(arm.arm->name));
    core::write_atomically(directory.arm_manifest(arm.arm->name), texts[a]);
    core::write_atomically(directory.arm(arm.arm->name) / "plan.json",
                           core::to_json(core::plan_facts(arm.plan)).dump(2) + "\n");
  }
  core::write_atomically(directory.study_json(), planned.dump(2) + "\n");
}

std::vector<OpenRun> left_runs(const core::StudyPlan& plan, const core::StudyDirectory& directory) {
  std::vector<OpenRun> runs;
  for (const std::uint64_t seed : plan.study->seeds) {
    for (std::size_t a = 0; a < plan.arms.size(); ++a) {
      if (plan.has_own_runs(a) && !directory.finished(plan.arms[a].arm->name, seed))
        runs.push_back({a, seed});
    }
  }
  return runs;
}

core::StudyRuns all_runs(const core::StudyPlan& plan, const core::StudyDirectory& directory) {
  core::StudyRuns runs;
  for (std::size_t a = 0; a < plan.arms.size(); ++a) {
    const core::PlannedArm& arm = plan.arms[a];
    auto& row = runs.emplace_back();
    if (!plan.has_own_runs(a)) {
      row = core::runs_as(arm.plan, runs[arm.runs_of]);
      continue;
    }
    for (const std::uint64_t seed : plan.study->seeds) {
      const auto record = directory.finished(arm.arm->name, seed);
      if (!record) {
        throw IoError(directory.run(arm.arm->name, seed).string() +
                      ": its summary.json is missing");
      }
      row.push_back(*record);
    }
  }
  return runs;
}

void remove_results(const core::StudyDirectory& directory) {
  core::remove_file(directory.results_csv());
  core::remove_file(directory.results_json());
}

Json write_results(const core::StudyPlan& plan, const core::StudyDirectory& directory) {
  const core::StudyRuns runs = all_runs(plan, directory);
  const std::string different = core::trained_on_different_rows(plan, runs);
  if (!different.empty()) {
    throw ConfigError((directory.path() / "runs").string() + ": " + different +
                      " were trained on different rows: the data changed in between" + kElsewhere);
  }
  Json results = core::results_json(plan, runs);
  core::write_atomically(directory.results_csv(), core::results_csv(plan, runs));
  core::write_atomically(directory.results_json(), results.dump(2) + "\n");
  return results;
}

}  // namespace privgrad::api
