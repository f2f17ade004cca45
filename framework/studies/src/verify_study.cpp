#include "privgrad/studies/verify_study.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "privgrad/error.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/studies/scored_rows.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "privgrad/studies/study_results.hpp"
#include "privgrad/studies/study_search.hpp"
#include "privgrad/trust/json_problem.hpp"
#include "study_labels.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMostDocument = std::size_t{64} << 20;
constexpr int kDeepest = 32;
constexpr std::size_t kMostRuns = 1'000'000;  // the most runs of an arm
/// The most problems reported for all runs together; more would hide the first problems.
constexpr std::size_t kMostProblems = 200;

Json object_of(const RecordDirectory& directory, const std::string& name) {
  const std::string text = directory.read(name, kMostDocument);
  if (const std::string wrong = json_problem(kDeepest, text); !wrong.empty())
    throw IoError(name + ": " + wrong);
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw IoError(name + ": holds no JSON object");
  return json;
}

/// The plugins of a lock file: each entry without its traits, and its traits, which depend on the
/// components that runs use.
using LockedPlugins = std::map<std::string, std::set<std::string>>;

LockedPlugins locked_plugins(const std::string& lock) {
  LockedPlugins plugins;
  std::string plugin;
  std::set<std::string> traits;
  std::istringstream lines(lock);
  for (std::string line; std::getline(lines, line);) {
    if (line == "[[plugin]]") {
      plugins[plugin].merge(traits);
      plugin.clear();
      traits.clear();
    } else if (line.starts_with("traits = ")) {
      std::istringstream words(
          line.substr(line.find('"') + 1, line.rfind('"') - line.find('"') - 1));
      for (std::string word; words >> word;) traits.insert(word);
    } else if (!line.empty() && !line.starts_with("plugins = ")) {  // skips the number of plugins
      plugin += line + "\n";
    }
  }
  plugins[plugin].merge(traits);
  return plugins;
}

/// Whether a text of a manifest matches the study's text: they are equal, or the study's text is a
/// relative path that could name the manifest's file from some folder.
bool is_text_of(const std::string& found, const std::string& asked) {
  if (found == asked) return true;
  fs::path end;
  for (const fs::path& part : fs::path(asked).lexically_normal()) {
    if (part != "..") end /= part;
  }
  return fs::path(found).is_absolute() && fs::path(asked).is_relative() && !end.empty() &&
         found.ends_with("/" + end.string());
}

/// The dotted key of the first difference between a manifest and a study's specification, or
/// nothing.
std::optional<std::string> difference(const Value& found, const Value& asked,
                                      const std::string& key) {
  const auto* members = std::get_if<Value::Object>(&found.data());
  const auto* wanted = std::get_if<Value::Object>(&asked.data());
  if (members != nullptr && wanted != nullptr) {
    for (const Value::Member& member : *wanted) {
      if (found.find(member.key) == nullptr) return key + "." + member.key;
    }
    for (const Value::Member& member : *members) {
      const Value* other = asked.find(member.key);
      if (other == nullptr) return key + "." + member.key;
      if (auto inside = difference(member.value, *other, key + "." + member.key)) return inside;
    }
    return std::nullopt;
  }
  const auto* items = std::get_if<Value::List>(&found.data());
  const auto* others = std::get_if<Value::List>(&asked.data());
  if (items != nullptr && others != nullptr && items->size() == others->size()) {
    for (std::size_t i = 0; i < items->size(); ++i) {
      if (auto inside = difference((*items)[i], (*others)[i], key + "." + std::to_string(i)))
        return inside;
    }
    return std::nullopt;
  }
  const auto* text = std::get_if<std::string>(&found.data());
  const auto* name = std::get_if<std::string>(&asked.data());
  const bool agrees =
      text != nullptr && name != nullptr ? is_text_of(*text, *name) : same_value(found, asked);
  return agrees ? std::nullopt : std::optional(key);
}

class StudyVerifier {
 public:
  /// \param asked  the study as it was requested, from which everything else follows.
  StudyVerifier(const RecordDirectory& directory, const Catalog& catalog, Study asked)
      : directory_(directory), catalog_(catalog) {
    plan_.study = std::make_unique<Study>(std::move(asked));
  }

  Verification verify() {
    json_ = object_of(directory_, "study.json");
    if (!plan_.study->search && directory_.has("search"))
      problem("search: is there, but study.yaml says nothing of a search");
    // Without the search's choices the arms are unknown.
    if (plan_.study->search && !attempt("search", [&] { find_choices(); })) return result();
    bool has_all = true;
    for (const Arm& arm : plan_.study->arms) has_all = plan_arm(arm) && has_all;
    runs_.resize(plan_.study->arms.size());
    has_all = check_runs() && has_all;
    if (has_all && plan_.study->search)
      has_all = attempt("study.json", [&] { check_scored_rows(); });
    if (has_all) attempt("study.json", [&] { check_results(); });
    return result();
  }

 private:
  Verification result() {
    const auto& arms = plan_.study->arms;
    const bool all_have_noise =
        std::ranges::none_of(arms, [&](const Arm& arm) { return is_without_noise(arm); });
    if (!all_have_noise) result_.epsilon.reset();  // no single epsilon covers all arms
    return std::move(result_);
  }

  /// Checks the runs of all seeds and, with a seed_rule, the number of seeds.
  bool check_runs() {
    Study& study = *plan_.study;
    for (std::size_t done = 0;;) {
      bool has_all = plan_.arms.size() == study.arms.size();
      for (std::size_t a = 0; a < study.arms.size(); ++a) {
        for (std::size_t s = done; s < study.seeds.size(); ++s)
          has_all = check_run(a, study.seeds[s]) && has_all;
      }
      if (!has_all) return false;
      done = study.seeds.size();
      const auto wanted = next_seeds(plan_, runs_);
      if (!wanted) break;
      study.seeds = first_seeds(*wanted);
    }
    const std::string different = trained_on_different_rows(plan_, runs_);
    if (!different.empty()) problem("runs: " + different + " were trained on different rows");
    check_that_all_runs_are_used();
    attempt("privgrad.lock", [&] { check_lock(); });
    return true;
  }

  /// Reports unused runs: a run may have been left out because of its result.
  void check_that_all_runs_are_used() {
    std::set<std::string> used;
    for (std::size_t a = 0; a < plan_.arms.size(); ++a) {
      for (const std::uint64_t seed : plan_.study->seeds)
        if (plan_.has_own_runs(a)) used.insert(folder_of(plan_.arms[a].arm->name, seed));
    }
    for (const std::string& arm : directory_.names("runs", kMostRuns)) {
      for (const std::string& run : directory_.names("runs/" + arm, kMostRuns)) {
        const std::string folder = std::string("runs/").append(arm).append("/").append(run);
        if (!used.contains(folder) && directory_.has(folder + "/summary.json"))
          problem(folder + ": does not belong to an arm and seed of the study");
      }
    }
  }

  static std::string folder_of(const std::string& arm, std::uint64_t seed) {
    return "runs/" + arm + "/seed-" + std::to_string(seed);
  }

  void problem(std::string what) {
    if (result_.problems.size() < kMostProblems) result_.problems.push_back(std::move(what));
  }

  bool attempt(const std::string& file, const std::function<void()>& action) {
    try {
      action();
      return true;
    } catch (const IoError& failure) {
      problem(failure.what());
    } catch (const Error& failure) {
      problem(file + ": cannot be recomputed: " + failure.what());
    } catch (const Json::exception& failure) {
      problem(file + ": is not what a study writes: " + failure.what());
    }
    return false;
  }

  std::string arm_file(const Arm& arm) const { return "arms/" + arm.name + "/manifest.yaml"; }

  bool plan_arm(const Arm& arm) {
    return attempt(arm_file(arm), [&] {
      PlannedArm planned;
      planned.arm = &arm;
      const auto asked = arm_manifest(*plan_.study, arm, {}, catalog_, DataFiles::may_be_missing);
      planned.manifest = std::make_unique<Manifest>(parse_manifest(
          directory_.read(arm_file(arm), kMaxYamlBytes), directory_.path() / arm_file(arm), {},
          catalog_, DataFiles::may_be_missing));
      if (const auto key = difference(planned.manifest->resolved, asked->resolved, ""))
        problem(arm_file(arm) + ": is not this arm of study.yaml: it has another " +
                key->substr(1));
      const std::string same_as = same_as_in_json(arm.name);
      const std::string facts =
          folder_of(same_as.empty() ? arm.name : same_as, plan_.study->seeds.front()) +
          "/facts.json";
      planned.plan =
          make_plan(*planned.manifest, facts_from_json(directory_.read(facts, kMostDocument)));
      const std::string plan = "arms/" + arm.name + "/plan.json";
      compare(plan, object_of(directory_, plan), to_json(plan_facts(planned.plan)));
      planned.runs_of = plan_.arms.size();
      for (std::size_t a = 0; a < plan_.arms.size() && !same_as.empty(); ++a)
        if (plan_.arms[a].arm->name == same_as) planned.runs_of = a;
      if (!same_as.empty() && (planned.runs_of == plan_.arms.size() ||
                               !train_alike(plan_.arms[planned.runs_of].plan, planned.plan)))
        problem("study.json: says that " + arm.name + " has the runs of '" + same_as +
                "', which trains another model");
      plan_.arms.push_back(std::move(planned));
    });
  }

  /// The arm whose runs `arm` uses, according to study.json; "" if `arm` has its own runs.
  std::string same_as_in_json(const std::string& arm) const {
    const Json arms = json_.value("arms", Json::array());  // the other members are compared later
    for (const Json& one : arms)
      if (one.at("name") == arm) return one.value("same_as", std::string());
    return "";
  }

  /// Checks that the study's lock file lists the plugins of its runs. The runs' ledgers contain
  /// hashes of these plugins.
  void check_lock() {
    LockedPlugins locked = locked_plugins(directory_.read("privgrad.lock", kMostDocument));
    // An arm that uses another arm's runs may need plugins for its proof that no run has used.
    const bool has_others = plan_.run_count() < plan_.arms.size() * plan_.study->seeds.size();
    if (has_others) {
      std::erase_if(locked, [&](const auto& plugin) { return !locked_.contains(plugin.first); });
      for (auto& [plugin, traits] : locked)
        std::erase_if(traits, [&, &name = plugin](const std::string& trait) {
          return !locked_.at(name).contains(trait);
        });
    }
    if (locked != locked_) problem("privgrad.lock: has other plugins than the runs");
  }

  bool check_run(std::size_t index, std::uint64_t seed) {
    const Arm& arm = plan_.study->arms[index];
    const std::string folder = folder_of(arm.name, seed);
    // Only the plans of all arms show which runs an arm uses.
    const bool has_plans = plan_.arms.size() == plan_.study->arms.size();
    if (has_plans && !plan_.has_own_runs(index)) {
      const PlannedArm& planned = plan_.arms[index];
      runs_[index] = runs_as(planned.plan, runs_[planned.runs_of]);
      return true;
    }
    return attempt(folder, [&] {
      const RecordDirectory run(directory_, folder);
      if (is_without_noise(arm)) {
        note("the arm " + arm.name +
             " has no noise: nothing is guaranteed for its runs, and no ledger binds their files");
      } else {
        check_record(run, folder);
      }
      check_is_arm(run, arm, seed, folder);
      for (auto& [plugin, traits] : locked_plugins(run.read("privgrad.lock", kMostDocument)))
        locked_[plugin].insert(traits.begin(), traits.end());
      const auto record = record_of(object_of(run, "summary.json"));
      if (!record) throw IoError(folder + "/summary.json: is of a run that did not end by itself");
      runs_[index].push_back(*record);
    });
  }

  bool is_without_noise(const Arm& arm) const {
    return std::ranges::any_of(plan_.arms, [&](const PlannedArm& planned) {
      return planned.arm == &arm && planned.manifest->noise_off;
    });
  }

  void check_record(const RecordDirectory& run, const std::string& folder) {
    Verification one = verify_run(run, catalog_);
    const std::string inside = folder + "/";
    for (const std::string& what : one.problems) problem(std::string(inside).append(what));
    for (const std::string& what : one.notes) note(what);
    for (const auto& [name, hash] : one.seals)
      result_.seals.emplace_back(std::string(inside).append(name), hash);
    if (one.epsilon) result_.epsilon = std::max(result_.epsilon.value_or(0.0), *one.epsilon);
    if (one.delta) result_.delta = std::max(result_.delta.value_or(0.0), *one.delta);
  }

  /// Reports a note once, even if runs of one arm with many seeds repeat it.
  void note(const std::string& what) {
    if (std::ranges::find(result_.notes, what) == result_.notes.end())
      result_.notes.push_back(what);
  }

  void check_is_arm(const RecordDirectory& run, const Arm& arm, std::uint64_t seed,
                    const std::string& folder) {
    const std::string text = directory_.read(arm_file(arm), kMaxYamlBytes);
    const Manifest expected =
        parse_manifest(text, directory_.path() / arm_file(arm), {"seed=" + std::to_string(seed)},
                       catalog_, DataFiles::may_be_missing);
    if (run.read("manifest.yaml", kMaxYamlBytes) == to_yaml(expected.resolved)) return;
    problem(folder + "/manifest.yaml: is not the arm " + arm.name + " with this seed");
  }

  /// Derives the search from the study, verifies it, and recomputes the choices from its runs.
  void find_choices() {
    const RecordDirectory folder(directory_, "search");
    Study& study = *plan_.study;
    search_ = std::make_shared<StudyVerifier>(folder, catalog_, search_study(study));
    const Verification found = search_->verify();
    for (const std::string& what : found.problems) problem("search/" + what);
    for (const std::string& what : found.notes) note(what);
    if (!found.problems.empty())
      throw IoError("search: does not verify, so neither does anything chosen by it");
    auto choices = choices_of(study, search_->plan_, search_->runs_);
    study = with_choices(std::move(study), std::move(choices));
    plan_.search = std::shared_ptr<const StudyPlan>(search_, &search_->plan_);
  }

  /// Only the data can show which rows were scored. Checks what follows from the manifests: an arm
  /// with the same data as its search was scored on rows that the arm uses, and `read_alike` says
  /// whether the search and the comparison read rows in the same way.
  void check_scored_rows() {
    Study& study = *plan_.study;
    study.scored_rows = facts_in<SearchFacts>(json_.at("search"), "study.json").rows;
    if (!study.scored_rows) throw IoError("study.json: has no search.rows");
    const ScoredRows& rows = *study.scored_rows;
    const bool of_test = study.search->score.name.starts_with("test_");
    bool is_possible = rows.split == (of_test ? "test" : "training") && rows.data_sets >= 1 &&
                       rows.also_trained_on <= rows.rows && rows.also_tested_on <= rows.rows;
    bool all_are_read_alike = true;
    for (std::size_t a = 0; a < plan_.arms.size(); ++a) {
      const Manifest& own = *plan_.arms[a].manifest;
      const Manifest& searched = *first_of_level(search_->plan_, a).manifest;
      all_are_read_alike = all_are_read_alike && read_alike(searched, own);
      if (to_yaml(*own.resolved.find("data")) != to_yaml(*searched.resolved.find("data"))) continue;
      const bool all_are_named =
          (of_test ? rows.also_tested_on : rows.also_trained_on) > 0 && rows.training_in_common > 0;
      const bool is_every_row = (of_test ? rows.also_tested_on : rows.also_trained_on) == rows.rows;
      is_possible = is_possible && all_are_named && (is_every_row || rows.data_sets > 1);
    }
    is_possible = is_possible && rows.read_alike == all_are_read_alike;
    if (!is_possible)
      problem("study.json: search.rows are not those of a search on this study's data");
    note("the rows that the search was scored on are not checked again");
  }

  void check_results() {
    plan_.stains = stains_of(plan_);
    check_equal_privacy();
    Json planned = to_json(plan_);
    planned["privgrad"] = json_.value("privgrad", Json());
    compare("study.json", json_, planned);
    Json results = results_json(plan_, runs_);
    const Json said = object_of(directory_, "results.json");
    results["privgrad"] = said.value("privgrad", Json());
    // Studies of earlier versions have no factors.
    if (!said.contains("factors")) results.erase("factors");
    compare("results.json", said, results);
    if (directory_.read("results.csv", kMostDocument) != results_csv(plan_, runs_))
      problem("results.csv: does not follow from the runs");
  }

  void compare(const std::string& file, const Json& said, const Json& derived) {
    if (const std::string key = first_difference(said, derived); !key.empty())
      return problem(file + ": has another '" + key + "' than the arms and their runs");
    if (said.size() != derived.size()) problem(file + ": says more than a study does");
  }

  /// Repeats plan_study()'s checks of equal privacy.
  void check_equal_privacy() {
    if (!plan_.study->equal_privacy) return;
    for (const PlannedArm& arm : plan_.arms) {
      if (arm.is_reference()) continue;
      const Manifest& first = *first_of_level(plan_, arm.arm->level).manifest;
      const Manifest& own = *arm.manifest;
      const double epsilon = arm.plan.epsilon().value;
      const bool is_equal = first.target_epsilon && own.target_epsilon == first.target_epsilon &&
                            own.target_delta == first.target_delta &&
                            own.adjacency == first.adjacency &&
                            epsilon <= *own.target_epsilon * (1.0 + 1e-9) &&
                            epsilon >= *own.target_epsilon * (1.0 - kEpsilonTolerance);
      if (!is_equal) {
        problem("study.json: says that privacy is equal, but the arm " + arm.arm->name +
                " has another guarantee");
      }
    }
  }

  const RecordDirectory& directory_;
  const Catalog& catalog_;
  Verification result_;
  std::shared_ptr<StudyVerifier> search_;
  Json json_;
  StudyPlan plan_;
  StudyRuns runs_;
  LockedPlugins locked_;  // the plugins in the runs' lock files
};

}  // namespace

Verification verify_study(const RecordDirectory& directory, const Catalog& catalog) {
  if (!directory.has("study.yaml")) {
    throw IoError(
        "study.yaml: is missing, which defines the study; a search is verified together with its "
        "study, and a study that an older program made is completed by the same call of ablate");
  }
  try {
    const std::string text = directory.read("study.yaml", kMaxYamlBytes);
    Study study = parse_study(text, "study.yaml");
    // A base file that the study names is not in this directory.
    if (!study.base_file.empty()) throw IoError("study.yaml: names a base instead of holding it");
    return StudyVerifier(directory, catalog, std::move(study)).verify();
  } catch (const ConfigError& failure) {
    throw IoError(failure.what());
  }
}

}  // namespace privgrad::core
