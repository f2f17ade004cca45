#include "privgrad/studies/verify_study.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include "privgrad/error.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "privgrad/studies/study_results.hpp"
#include "privgrad/studies/study_search.hpp"
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

Axis axis_of(const Json& json) {
  Axis axis{.keys = json.at("keys").get<std::vector<std::string>>(), .values = {}};
  for (const Json& label : json.at("labels"))
    axis.values.push_back({label.get<std::string>(), {}, {}});
  if (axis.keys.empty() || axis.values.empty()) throw IoError("study.json: an axis varies nothing");
  return axis;
}

StudyMetric metric_of(const Json& json) {
  return {json.at("name").get<std::string>(), json.at("better") == "higher"};
}

StudySearch search_of(const Json& json) {
  StudySearch search{.over = {},
                     .of_variant = {},
                     .seeds = json.at("seeds").get<std::vector<std::uint64_t>>(),
                     .score = metric_of(json.at("score")),
                     .sets = {}};
  for (const Json& axis : json.at("over")) search.over.push_back(axis_of(axis));
  for (const auto& [variant, axes] : json.at("arms").items()) {
    for (const Json& axis : axes) search.of_variant[variant].push_back(axis_of(axis));
  }
  return search;
}

/// What the study says of the rows that were scored, which only the data can show.
std::optional<ScoredRows> rows_of(const Json& search) {
  if (search.is_null() || search.at("rows").is_null()) return std::nullopt;
  const Json& rows = search.at("rows");
  return ScoredRows{.split = rows.at("split").get<std::string>(),
                    .rows = rows.at("rows").get<std::uint64_t>(),
                    .also_trained_on = rows.at("also_trained_on").get<std::uint64_t>(),
                    .also_tested_on = rows.at("also_tested_on").get<std::uint64_t>(),
                    .training_in_common = rows.at("training_in_common").get<std::uint64_t>()};
}

SeedRule rule_of(const Json& json) {
  SeedRule rule{.widths = json.at("until").get<std::map<std::string, double>>(),
                .at_least = json.at("at_least").get<std::size_t>(),
                .at_most = json.at("at_most").get<std::size_t>()};
  if (rule.at_least < 2 || rule.at_least > rule.at_most || rule.at_most > kMaxSeeds)
    throw IoError("study.json: 'seed_rule' is none");
  return rule;
}

std::size_t level_of(const Study& study, const Json& label) {
  if (!study.levels) return 0;
  const auto& values = study.levels->values;
  const auto is_it = [&](const AxisValue& value) { return value.label == label; };
  const auto found = std::find_if(values.begin(), values.end(), is_it);
  if (found == values.end()) throw IoError("study.json: an arm is at a level that is not listed");
  return static_cast<std::size_t>(found - values.begin());
}

/// The study according to study.json; facts that follow from manifests are derived again.
Study study_of(const Json& json) {
  Study study;
  study.name = json.at("name").get<std::string>();
  study.seeds = json.at("seeds").get<std::vector<std::uint64_t>>();
  study.equal_privacy = json.at("equal_privacy").get<bool>();
  study.training_data_is_public = json.at("training_data_is_public").get<bool>();
  for (const Json& metric : json.at("metrics")) study.metrics.push_back(metric_of(metric));
  for (const Json& axis : json.at("axes")) study.axes.push_back(axis_of(axis));
  if (!json.at("levels").is_null()) study.levels = axis_of(json.at("levels"));
  std::vector<std::optional<std::size_t>> baselines(study.levels ? study.levels->values.size() : 1);
  if (const Json& search = json.at("search"); !search.is_null()) study.search = search_of(search);
  if (const Json& rule = json.at("seed_rule"); !rule.is_null()) study.seed_rule = rule_of(rule);
  study.equivalence = json.at("equivalence").get<std::map<std::string, double>>();
  study.titles = json.at("titles").get<std::map<std::string, std::string>>();
  for (const Json& arm : json.at("arms")) {
    Arm made{.name = arm.at("name").get<std::string>(),
             .variant = arm.at("variant").get<std::string>(),
             .level = level_of(study, arm.at("level")),
             .labels = arm.at("labels").get<std::map<std::string, std::string>>()};
    if (!is_plain_name(made.name)) throw IoError("study.json: an arm has no plain name");
    for (const auto& [key, value] : arm.at("set").items()) {
      std::vector<Problem> problems;
      auto read = parse_yaml(value.dump(), problems);
      if (!read) throw IoError("study.json: an arm sets what no manifest holds");
      made.changes.push_back({key, std::move(*read), ""});
    }
    // In a search, whose variants differ by level: the first arm of each.
    auto& baseline = baselines.at(made.level);
    if (!baseline || made.variant == json.at("baseline")) baseline = study.arms.size();
    study.arms.push_back(std::move(made));
  }
  for (const auto& baseline : baselines) study.baselines.push_back(baseline.value_or(0));
  const bool in_limits = !study.arms.empty() && study.arms.size() <= kMaxArms &&
                         !study.seeds.empty() && study.seeds.size() <= kMaxSeeds &&
                         !study.metrics.empty();
  if (study.search) {
    for (const std::uint64_t seed : study.search->seeds) {
      const bool is_of_rule = study.seed_rule && seed >= 1 && seed <= study.seed_rule->at_most;
      if (is_of_rule ||
          std::find(study.seeds.begin(), study.seeds.end(), seed) != study.seeds.end())
        throw IoError("study.json: the search used a seed of the comparison");
    }
  }
  if (!in_limits) throw IoError("study.json: names no arms, seeds or metrics, or too many");
  return study;
}

bool same_axes(const std::vector<Axis>& a, const std::vector<Axis>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Axis& one, const Axis& other) {
    return one.keys == other.keys &&
           std::equal(one.values.begin(), one.values.end(), other.values.begin(),
                      other.values.end(), [](const AxisValue& left, const AxisValue& right) {
                        return left.label == right.label;
                      });
  });
}

/// Whether the one has a level for each arm of the other, and searches what it says.
bool is_search_of(const Study& search, const Study& study) {
  if (search.search || !search.levels) return false;
  const auto& levels = search.levels->values;
  return std::equal(
             levels.begin(), levels.end(), study.arms.begin(), study.arms.end(),
             [](const AxisValue& level, const Arm& arm) { return level.label == arm.name; }) &&
         same_axes(search.axes, searched_axes(*study.search)) &&
         search.seeds == study.search->seeds &&
         search.metrics.front().name == study.search->score.name &&
         search.training_data_is_public == study.training_data_is_public;
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
    if (!plan_.study->search && directory_.has("search"))
      problem("search: is there, but study.json says nothing of a search");
    if (has_all && plan_.study->search) {
      has_all = attempt("study.json", [&] { find_choices(); });
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
      plan_.study = std::make_unique<Study>(study_of(json_));
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

  /// The choices follow from the search, which is a study of its own.
  void find_choices() {
    const RecordDirectory folder(directory_, "search");
    StudyVerifier search(folder, catalog_);
    const Verification found = search.verify();
    for (const std::string& what : found.problems) problem("search/" + what);
    for (const std::string& what : found.notes) note(what);
    if (!found.problems.empty()) return;
    Study& study = *plan_.study;
    if (!is_search_of(*search.plan_.study, study))
      return problem("search/study.json: is not the search of this study");
    study.choices = choices_of(study, search.plan_, search.runs_);
    study.scored_rows = rows_of(json_.at("search"));
    note("the rows that the search was scored on are not looked at again");
    for (std::size_t a = 0; a < study.arms.size(); ++a) {
      for (const ManifestChange& change : study.choices[a].set) {
        if (value_to_json(change.value) !=
            json_.at("arms").at(a).at("set").value(change.key, Json()))
          problem("study.json: the arm " + study.arms[a].name + " is not at its choice of " +
                  change.key);
      }
    }
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
    for (const PlannedArm& arm : plan_.arms) {
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
  Json json_;
  StudyPlan plan_;
  StudyRuns runs_;
};

}  // namespace

Verification verify_study(const RecordDirectory& directory, const Catalog& catalog) {
  return StudyVerifier(directory, catalog).verify();
}

}  // namespace privgrad::core
