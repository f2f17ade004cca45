#include "privgrad/studies/verify_study.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "privgrad/error.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "privgrad/studies/study_results.hpp"
#include "privgrad/trust/json_depth.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostDocument = std::size_t{64} << 20;
constexpr int kDeepest = 32;
/// For all runs together; more would hide the first ones.
constexpr std::size_t kMostProblems = 200;

Json object_of(const RecordDirectory& directory, const std::string& name) {
  const std::string text = directory.read(name, kMostDocument);
  if (nested_deeper_than(kDeepest, text)) throw IoError(name + ": is nested too deep");
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw IoError(name + ": holds no JSON object");
  return json;
}

/// One name below a directory, and nothing that leads out of it.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find_first_of("/\\") == name.npos &&
         name.find('\0') == name.npos;
}

/// The study according to study.json; facts that follow from manifests are derived again.
Study study_of(const Json& json) {
  Study study;
  study.name = json.at("name").get<std::string>();
  study.seeds = json.at("seeds").get<std::vector<std::uint64_t>>();
  study.equal_privacy = json.at("equal_privacy").get<bool>();
  study.training_data_is_public = json.at("training_data_is_public").get<bool>();
  for (const Json& metric : json.at("metrics")) {
    study.metrics.push_back(
        {metric.at("name").get<std::string>(), metric.at("better") == "higher"});
  }
  for (const Json& axis : json.at("axes")) {
    Axis made{.keys = axis.at("keys").get<std::vector<std::string>>(), .values = {}};
    for (const Json& label : axis.at("labels"))
      made.values.push_back({label.get<std::string>(), {}, {}});
    study.axes.push_back(std::move(made));
  }
  for (const Json& arm : json.at("arms")) {
    Arm made{.name = arm.at("name").get<std::string>(),
             .labels = arm.at("labels").get<std::map<std::string, std::string>>(),
             .changes = {}};
    if (!is_plain_name(made.name)) throw IoError("study.json: an arm has no plain name");
    for (const auto& [key, value] : arm.at("set").items()) {
      std::vector<Problem> problems;
      auto read = parse_yaml(value.dump(), problems);
      if (!read) throw IoError("study.json: an arm sets what no manifest holds");
      made.changes.push_back({key, std::move(*read), ""});
    }
    if (made.name == json.at("baseline")) study.baseline = study.arms.size();
    study.arms.push_back(std::move(made));
  }
  const bool in_limits = !study.arms.empty() && study.arms.size() <= kMaxArms &&
                         !study.seeds.empty() && study.seeds.size() <= kMaxSeeds &&
                         !study.metrics.empty();
  if (!in_limits) throw IoError("study.json: names no arms, seeds or metrics, or too many");
  return study;
}

class StudyVerifier {
 public:
  StudyVerifier(const RecordDirectory& directory, const Catalog& catalog)
      : directory_(directory), catalog_(catalog) {}

  Verification verify() {
    read_study();
    bool has_all = true;
    for (const Arm& arm : plan_.study->arms) has_all = plan_arm(arm) && has_all;
    for (const Arm& arm : plan_.study->arms) {
      runs_.emplace_back();
      for (const std::uint64_t seed : plan_.study->seeds) has_all = check_run(arm, seed) && has_all;
    }
    if (has_all) attempt("study.json", [&] { check_results(); });
    return std::move(result_);
  }

 private:
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
      problem(file + ": cannot be derived again: " + failure.what());
    } catch (const Json::exception& failure) {
      problem(file + ": is not what a study writes: " + failure.what());
    }
    return false;
  }

  void read_study() {
    json_ = object_of(directory_, "study.json");
    try {
      plan_.study = std::make_unique<const Study>(study_of(json_));
    } catch (const Json::exception& failure) {
      throw IoError(std::string("study.json: is not what a study writes: ") + failure.what());
    }
  }

  std::string arm_file(const Arm& arm) const { return "arms/" + arm.name + "/manifest.yaml"; }

  bool plan_arm(const Arm& arm) {
    return attempt(arm_file(arm), [&] {
      PlannedArm planned;
      planned.arm = &arm;
      planned.manifest = std::make_unique<Manifest>(parse_manifest(
          directory_.read(arm_file(arm), kMaxYamlBytes), directory_.path() / arm_file(arm), {},
          catalog_, DataFiles::may_be_missing));
      const std::string facts = folder_of(arm.name, plan_.study->seeds.front()) + "/facts.json";
      planned.plan =
          make_plan(*planned.manifest, facts_from_json(directory_.read(facts, kMostDocument)));
      plan_.arms.push_back(std::move(planned));
    });
  }

  bool check_run(const Arm& arm, std::uint64_t seed) {
    const std::string folder = folder_of(arm.name, seed);
    return attempt(folder, [&] {
      const RecordDirectory run(directory_, folder);
      Verification one = verify_run(run, catalog_);
      const std::string inside = folder + "/";
      for (const std::string& what : one.problems) problem(std::string(inside).append(what));
      for (const std::string& what : one.notes) note(what);
      for (const auto& [name, hash] : one.seals)
        result_.seals.emplace_back(std::string(inside).append(name), hash);
      if (one.epsilon) result_.epsilon = std::max(result_.epsilon.value_or(0.0), *one.epsilon);
      if (one.delta) result_.delta = std::max(result_.delta.value_or(0.0), *one.delta);
      check_is_arm(run, arm, seed, folder);
      const auto record = record_of(object_of(run, "summary.json"));
      if (!record) throw IoError(folder + "/summary.json: is of a run that did not end by itself");
      runs_.back().push_back(*record);
    });
  }

  /// Runs of one arm and of many seeds say the same.
  void note(const std::string& what) {
    if (std::find(result_.notes.begin(), result_.notes.end(), what) == result_.notes.end())
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

  void check_results() {
    plan_.stains = stains_of(plan_);
    check_equal_privacy();
    Json planned = to_json(plan_);
    planned["privgrad"] = json_.value("privgrad", Json());
    compare("study.json", json_, planned);
    Json results = results_json(plan_, runs_);
    const Json said = object_of(directory_, "results.json");
    results["privgrad"] = said.value("privgrad", Json());
    compare("results.json", said, results);
    if (directory_.read("results.csv", kMostDocument) != results_csv(plan_, runs_))
      problem("results.csv: is not what the runs make");
  }

  void compare(const std::string& file, const Json& said, const Json& derived) {
    for (const auto& [key, value] : derived.items()) {
      if (said.contains(key) && nearly_equal(said.at(key), value)) continue;
      return problem(std::string(file)
                         .append(": says '")
                         .append(key)
                         .append("' otherwise than the arms and their runs"));
    }
    if (said.size() != derived.size()) problem(file + ": says more than a study does");
  }

  /// The checks that plan_study() made before the first run.
  void check_equal_privacy() {
    if (!plan_.study->equal_privacy) return;
    const Manifest& first = *plan_.arms.front().manifest;
    for (const PlannedArm& arm : plan_.arms) {
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
  Json json_;
  StudyPlan plan_;
  StudyRuns runs_;
};

}  // namespace

Verification verify_study(const RecordDirectory& directory, const Catalog& catalog) {
  return StudyVerifier(directory, catalog).verify();
}

}  // namespace privgrad::core
