#include "privgrad/studies/study_plan.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/manifest/manifest_names.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/names.hpp"
#include "privgrad/plan/remarks.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/studies/study_search.hpp"
#include "study_labels.hpp"

namespace privgrad::core {
namespace {

std::string version() {
  return PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(
      PRIVGRAD_VERSION_MINOR) "." PRIVGRAD_TEXT(PRIVGRAD_VERSION_PATCH);
}

/// Collects the problems of arms, and reports each once. Unless all arms have a problem, its text
/// names the first arm with it, and counts the others.
class ArmProblems {
 public:
  explicit ArmProblems(const Study& study) : study_(study) {}

  /// Performs an action for an arm and records its exception.
  /// \returns whether there was no exception.
  template <class Action>
  bool guard(const Arm& arm, Action action) {
    try {
      action();
      return true;
    } catch (const PrivacyError& problem) {
      add(arm, problem.what(), 1);
    } catch (const ConfigError& problem) {
      add(arm, problem.what(), 2);
    } catch (const IoError& problem) {
      add(arm, problem.what(), 0);
    }
    return false;
  }

  /// Throws all problems as one exception, of the most serious kind: a wrong manifest before a
  /// refusal, and a refusal before a file error.
  void throw_if_any() const {
    if (lines_.empty()) return;
    std::vector<std::string> texts;
    for (const Line& line : lines_) texts.push_back(line.text + which(line));
    std::string joined;
    for (const std::string& text : texts) joined += (joined.empty() ? "" : "\n") + text;
    if (worst_ == 2) throw ManifestError(texts);
    if (worst_ == 1) throw PrivacyError(joined);
    throw IoError(joined);
  }

 private:
  struct Line {
    std::string text;
    std::vector<std::string> arms;
  };

  void add(const Arm& arm, std::string_view what, int weight) {
    worst_ = std::max(worst_, weight);
    for (std::size_t begin = 0; begin <= what.size();) {
      const std::size_t end = std::min(what.find('\n', begin), what.size());
      add_line(arm, std::string(what.substr(begin, end - begin)));
      begin = end + 1;
    }
  }

  void add_line(const Arm& arm, const std::string& text) {
    const auto same = [&](const Line& line) { return line.text == text; };
    const auto found = std::ranges::find_if(lines_, same);
    if (found == lines_.end()) {
      lines_.push_back({text, {arm.name}});
    } else if (found->arms.back() != arm.name) {
      found->arms.push_back(arm.name);
    }
  }

  std::string which(const Line& line) const {
    if (line.arms.size() == study_.arms.size()) return "";
    std::string text = " (in the arm " + line.arms.front();
    if (line.arms.size() > 1) {
      text += " and " + std::to_string(line.arms.size() - 1) +
              (line.arms.size() == 2 ? " other" : " others");
    }
    return text + ")";
  }

  const Study& study_;
  std::vector<Line> lines_;
  int worst_ = 0;
};

/// Refuses a `--set` of a key that the study varies, searches or sets: the study would overwrite
/// it.
void refuse_varied_overrides(const Study& study, const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    const std::string key = text.substr(0, text.find('='));
    const auto refuse = [&](const std::string& why) {
      throw ManifestError({std::string("--set ").append(key).append(": error: ").append(why)});
    };
    if (key == "seed") refuse("the study has seeds of its own");
    if (key == "privacy.calibrate") refuse("follows from the study's equal_privacy");
    const auto replaces = [&](const std::string& varied) {
      return key == varied || key.starts_with(varied + ".");
    };
    for (const Axis& axis : varied_axes(study)) {
      for (const std::string& varied : axis.keys) {
        if (replaces(varied)) refuse("the study varies " + varied);
      }
    }
    for (const Axis& axis : study.search ? searched_axes(*study.search) : std::vector<Axis>{}) {
      for (const std::string& searched : axis.keys) {
        if (replaces(searched)) refuse("the study searches " + searched);
      }
    }
    for (const ManifestChange& change : study.sets) {
      if (replaces(change.key)) refuse("the study sets " + change.key + " itself");
    }
  }
}

Value base_of(const Study& study) {
  if (study.base_file.empty()) return study.base;
  std::vector<Problem> found;
  std::optional<Value> root = parse_yaml(read_yaml_file(study.base_file), found);
  ManifestProblems problems(one_line(study.base_file.string(), 4096));
  problems.add_yaml(found);
  problems.throw_if_any();
  return std::move(root).value();
}

void set_member(Value& object, const std::string& key, Value value) {
  if (Value* there = object.find(key)) {
    *there = std::move(value);
  } else {
    std::get<Value::Object>(object.data()).push_back({key, std::move(value), {}});
  }
}

void check_mode(const Manifest& manifest) {
  if (manifest.mode != Mode::release) return;
  throw privacy_error_at(manifest, "mode",
                         "a study pairs its runs by their seeds, which release mode refuses; use "
                         "mode: research");
}

/// Checks the conditions of equal privacy that concern only the manifest.
void check_target(const Manifest& manifest, const Manifest& first, bool has_levels) {
  const auto refuse = [&](const char* key, const std::string& why) {
    throw privacy_error_at(manifest, key,
                           why +
                               "; a study compares its arms at the same privacy: what differs in "
                               "it belongs to levels, or the study says equal_privacy: false, "
                               "which every output then shows");
  };
  const auto differs = [&](const std::string& other, const std::string& own) {
    return "is " + own + " here and " + other + " in the first arm" +
           (has_levels ? " of this level" : "");
  };
  if (manifest.noise_off) return;  // an arm without noise is a reference
  if (!manifest.target_epsilon) refuse("privacy.target_epsilon", "is missing");
  if (first.target_epsilon && *manifest.target_epsilon != *first.target_epsilon) {
    refuse("privacy.target_epsilon",
           differs(format_number(*first.target_epsilon), format_number(*manifest.target_epsilon)));
  }
  if (manifest.target_delta != first.target_delta) {
    refuse("privacy.target_delta",
           differs(format_number(first.target_delta), format_number(manifest.target_delta)));
  }
  if (manifest.adjacency != first.adjacency) {
    refuse("privacy.adjacency", differs(std::string(to_text(first.adjacency)),
                                        std::string(to_text(manifest.adjacency))));
  }
}

/// Checks that a plan has equal privacy: the budget pays for all steps, and epsilon is at most the
/// target and at least 1 - kEpsilonTolerance times it. With adaptive noise, epsilon is the target.
void check_guarantee(const Plan& plan) {
  if (plan.noise_adapts) return;
  const Manifest& manifest = *plan.manifest;
  const double target = *manifest.target_epsilon;
  const double epsilon = plan.epsilon().value;
  if (plan.affordable_steps == plan.steps() && epsilon <= target &&
      epsilon >= (1.0 - kEpsilonTolerance) * target) {
    return;
  }
  throw privacy_error_at(
      manifest, "privacy.target_epsilon",
      "is " + format_number(target) + ", but the arm cannot be calibrated to it: it spends " +
          format_number(epsilon) + " in " + std::to_string(plan.affordable_steps) + " of " +
          std::to_string(plan.steps()) + " steps");
}

/// A mean along a run covers at least this many of its steps (rounds), or all if there are fewer.
constexpr std::uint64_t kFewestMeasurements = 10;

void check_is_measured_often(const Plan& plan) {
  const std::uint64_t every = plan.evaluate_every();
  const std::uint64_t all = plan.federated ? plan.manifest->federated->rounds : plan.steps();
  const std::uint64_t most = std::max<std::uint64_t>(1, all / kFewestMeasurements);
  if (every <= most) return;
  throw error_at(*plan.manifest, "evaluate_every",
                 "is " + std::to_string(every) + ", allowed is at most " + std::to_string(most) +
                     " of " + std::to_string(all) +
                     " for a study that asks for mean_gradient_norm");
}

/// Checks that all seeds use the same rows if the study has a search: otherwise the number of rows
/// that the search and the comparison share is unknown.
void check_sample(const Manifest& manifest, const Study& study) {
  if (!manifest.sample || manifest.sample->seed || !study.search) return;
  throw error_at(manifest, "data.sample",
                 "has no seed, so that each run draws rows of its own; a study with a search needs "
                 "data.sample.seed");
}

void check_metrics(const Plan& plan, const Study& study) {
  for (const StudyMetric& metric : study.metrics) {
    const bool needs_test = metric.name.starts_with("test_");
    if (needs_test && !plan.setting->info.has_test_split) {
      throw error_at(*plan.manifest, "data",
                     "there are no test examples, but the study asks for " + metric.name);
    }
    if (metric.name.ends_with("gradient_norm") && !plan.manifest->gradient_norm) {
      throw error_at(*plan.manifest, "gradient_norm",
                     "is not measured, but the study asks for it; set gradient_norm: true");
    }
    if (metric.name == "mean_gradient_norm") check_is_measured_often(plan);
    if (metric.name.ends_with("accuracy") && plan.setting->network.input.classes == 0) {
      throw error_at(*plan.manifest, "data",
                     "has no classes, but the study asks for " + metric.name);
    }
  }
}

// ---- study.json

PlannedArmFacts planned_facts(const StudyPlan& all, std::size_t index) {
  const Plan& plan = all.arms[index].plan;
  const auto [least, most] = std::ranges::minmax_element(plan.noise_multiplier);
  PlannedArmFacts arm{facts_of(all, index)};
  arm.steps = plan.steps();
  arm.adjacency = to_text(plan.manifest->adjacency);
  arm.accountant = plan.accountants.front().name;
  arm.bound = to_text(plan.epsilon().bound);
  arm.rescaled = plan.noise_is_rescaled;
  arm.noise_factor = plan.noise_factor;
  arm.noise_adapts = plan.noise_adapts.has_value();
  arm.noise_multiplier = {finite(*least), finite(*most)};
  arm.floating_point = floating_point_json(plan.covers_bits());
  arm.unaccounted = unaccounted_names(plan.unaccounted);
  return arm;
}

/// The keys of `privacy` that affect only the proofs about a model, not the model.
constexpr std::array kProofKeys{"accountant",   "also",    "target_epsilon",
                                "target_delta", "account", "calibrate"};

/// An arm's manifest without kProofKeys and noise_multiplier; train_alike() compares the noise.
Value trained_by(Value trained) {
  const auto drop = [](Value* section, auto is_dropped) {
    if (section != nullptr) std::erase_if(std::get<Value::Object>(section->data()), is_dropped);
  };
  drop(trained.find("privacy"), [](const Value::Member& member) {
    return std::ranges::find(kProofKeys, member.key) != kProofKeys.end();
  });
  drop(trained.find("schedules"),
       [](const Value::Member& member) { return member.key == "noise_multiplier"; });
  return trained;
}

/// The value that all arms except references have in common, or nothing.
template <class T>
Nullable<T> common(const StudyPlan& plan, const auto& get) {
  const std::optional<T> value = get(first_of_level(plan, plan.arms.front().arm->level).plan);
  for (std::size_t a = 0; a < plan.arms.size(); ++a)
    if (!plan.is_reference(a) && get(plan.arms[a].plan) != value) return std::nullopt;
  return value;
}

void find_same_runs(StudyPlan& plan) {
  for (std::size_t a = 0; a < plan.arms.size(); ++a) {
    plan.arms[a].runs_of = a;
    for (std::size_t earlier = 0; earlier < a; ++earlier) {
      const PlannedArm &one = plan.arms[a], &other = plan.arms[earlier];
      const bool may_be_same = one.arm->level == other.arm->level || one.is_reference();
      if (!may_be_same || !plan.has_own_runs(earlier) || !train_alike(other.plan, one.plan))
        continue;
      plan.arms[a].runs_of = earlier;
      break;
    }
  }
}

/// Checks that baselines have the privacy of their level.
void check_baselines(const StudyPlan& plan) {
  for (const std::size_t baseline : plan.study->baselines) {
    const PlannedArm& first = first_of_level(plan, plan.arms[baseline].arm->level);
    if (plan.is_reference(baseline) && !first.is_reference())
      throw privacy_error_at(*plan.arms[baseline].manifest, "privacy.noise",
                             "is off in the arm " + plan.arms[baseline].arm->name +
                                 ", which is the baseline; a study compares at the same privacy");
  }
}

/// Frees the values of a plan's initial weights, which each run reads again: 90 MB for each arm of
/// a language model with 22 million parameters. Training from the plan is then refused
/// (put_initial_values()).
void drop_initial_weights(const Plan& plan) {
  std::const_pointer_cast<Setting>(plan.setting)->initial.reset();
}

}  // namespace

std::size_t StudyPlan::run_count() const {
  std::size_t own = 0;
  for (std::size_t a = 0; a < arms.size(); ++a) own += has_own_runs(a) ? 1 : 0;
  return own * study->seeds.size();
}

bool train_alike(const Plan& a, const Plan& b) {
  // If the budget ends a run, the last step depends on the accountant.
  const auto is_whole = [](const PlanNumbers& p) { return p.affordable_steps == p.steps(); };
  const auto values = [](const PlanNumbers& plan) {
    return std::tie(plan.noise_multiplier, plan.clip_norm, plan.learning_rate, plan.batch_size,
                    plan.sampler_batch_size, plan.count_noise, plan.count_share, plan.optimized,
                    plan.auto_values);
  };
  const auto releases = [](const PlanNumbers& plan) {
    std::vector<Event> events;
    for (const auto* charges : {&plan.charges, &plan.beside})
      for (const Charge& charge : *charges) events.push_back(charge.release);
    return events;
  };
  return is_whole(a) && is_whole(b) && !a.noise_adapts && !b.noise_adapts && !a.federated &&
         !b.federated && values(a) == values(b) && releases(a) == releases(b) &&
         same_value(trained_by(a.manifest->resolved), trained_by(b.manifest->resolved));
}

std::unique_ptr<Manifest> arm_manifest(const Study& study, const Arm& arm,
                                       const std::vector<std::string>& overrides,
                                       const Catalog& catalog, DataFiles data_files) {
  std::vector<ManifestChange> changes = study.sets;
  changes.insert(changes.end(), arm.changes.begin(), arm.changes.end());
  // The study gives each run its seed, so the manifest must not have one.
  const std::string file = study.file.string();
  Value none, all{"all"};
  none.mark = all.mark = {1, 1};
  changes.push_back({"seed", none, file});
  if (study.equal_privacy) changes.push_back({"privacy.calibrate", all, file});
  return std::make_unique<Manifest>(
      study.base_file.empty()
          ? check_manifest(study.base, study.file, overrides, catalog, changes, data_files)
          : load_manifest(study.base_file, overrides, catalog, changes));
}

std::string study_yaml(const Study& study, const std::vector<std::string>& overrides) {
  Value base = with_overrides(base_of(study), overrides);
  if (base.find("name") == nullptr)
    set_member(base, "name",
               Value(default_name(study.base_file.empty() ? study.file : study.base_file)));
  Value whole = study.source;
  set_member(whole, "name", Value(study.name));
  set_member(whole, "base", std::move(base));
  std::string text = to_yaml(whole);
  if (text.size() <= kMaxYamlBytes) return text;
  throw ConfigError(study.file.string() + ": with its base it is longer than a study file may be");
}

MetricFacts facts_of(const StudyMetric& metric) {
  return {metric.name, metric.higher_is_better ? "higher" : "lower"};
}

Named<nlohmann::json> facts_of(const std::vector<ManifestChange>& changes) {
  Named<nlohmann::json> set;
  for (const ManifestChange& change : changes) set[change.key] = value_to_json(change.value);
  return set;
}

AxisFacts facts_of(const Axis& axis) {
  AxisFacts facts{.keys = axis.keys};
  for (const AxisValue& value : axis.values) facts.labels.push_back(value.label);
  return facts;
}

const PlannedArm& first_of_level(const StudyPlan& plan, std::size_t level) {
  const auto is_first = [&](const PlannedArm& arm) { return arm.arm->level == level; };
  const auto found = std::ranges::find_if(
      plan.arms, [&](const PlannedArm& arm) { return is_first(arm) && !arm.is_reference(); });
  return found != plan.arms.end() ? *found : *std::ranges::find_if(plan.arms, is_first);
}

std::vector<std::string> stains_of(const StudyPlan& plan) {
  std::vector<std::string> stains;
  const Plan& first = plan.arms.front().plan;
  const auto any = [&](auto differs) {
    return std::ranges::any_of(plan.arms, [&](const PlannedArm& arm) { return differs(arm.plan); });
  };
  if (plan.study->equal_privacy) return stains;
  stains.push_back("equal_privacy is off: arms were not calibrated to one guarantee");
  if (any([](const Plan& p) { return p.manifest->noise_off; })) {
    stains.push_back("some arms are without privacy");
  }
  if (any([&](const PlanNumbers& p) { return p.epsilon().value != first.epsilon().value; })) {
    stains.push_back("arms spend different epsilons");
  }
  if (any([&](const Plan& p) {
        return p.manifest->target_delta != first.manifest->target_delta;
      })) {
    stains.push_back("arms have different deltas");
  }
  if (any([&](const Plan& p) { return p.manifest->adjacency != first.manifest->adjacency; })) {
    stains.push_back("arms have different adjacencies: their epsilons mean different things");
  }
  return stains;
}

/// States in words whether the seeds share a training set; "" if no arm draws rows anew for each
/// seed, because all seeds then share their rows.
std::string training_sets_words(const StudyPlan& plan) {
  const auto is_drawn = [](const PlannedArm& arm) {
    return arm.manifest->sample && !arm.manifest->sample->seed;
  };
  const auto count = std::ranges::count_if(plan.arms, is_drawn);
  if (count == 0) return "";
  return count == static_cast<std::ptrdiff_t>(plan.arms.size())
             ? "Each seed draws a training set of its own: intervals are over training sets as "
               "well."
             : "In some arms each seed draws a training set of its own, in others all seeds share "
               "one.";
}

std::vector<std::string> study_remarks(const StudyPlan& plan) {
  std::vector<std::pair<std::string, std::vector<std::string>>> said;
  for (const PlannedArm& arm : plan.arms) {
    const std::optional<double>& target = arm.manifest->target_epsilon;
    const double epsilon = plan.study->equal_privacy && target ? *target : arm.plan.epsilon().value;
    for (std::string& remark : remarks(arm.plan, epsilon)) {
      const auto same = [&](const auto& other) { return other.first == remark; };
      auto found = std::ranges::find_if(said, same);
      if (found == said.end())
        found = said.emplace(said.end(), std::move(remark), std::vector<std::string>{});
      found->second.push_back(arm.arm->name);
    }
  }
  std::vector<std::string> all;
  for (std::size_t a = 0; a < plan.arms.size(); ++a) {
    if (plan.is_reference(a) && plan.has_own_runs(a))
      all.push_back(plan.arms[a].arm->variant +
                    " is without privacy: a reference, with which nothing is compared.");
  }
  if (const std::string words = training_sets_words(plan); !words.empty()) all.push_back(words);
  for (const auto& [remark, arms] : said) {
    const bool is_of_all = arms.size() == plan.arms.size();
    all.push_back(is_of_all ? remark : listed(arms) + ": " + remark);
  }
  return all;
}

StudyPlan plan_study(Study study, const std::vector<std::string>& overrides,
                     const Catalog& catalog) {
  StudyPlan plan;
  plan.study = std::make_unique<Study>(std::move(study));
  const Study& given = *plan.study;
  refuse_varied_overrides(given, overrides);
  ArmProblems problems(given);
  for (const Arm& arm : given.arms) {
    problems.guard(arm, [&] {
      auto manifest = arm_manifest(given, arm, overrides, catalog);
      check_mode(*manifest);
      plan.arms.push_back({.arm = &arm, .manifest = std::move(manifest), .plan = {}});
    });
  }
  problems.throw_if_any();
  for (PlannedArm& arm : plan.arms) {
    problems.guard(*arm.arm, [&] {
      if (given.equal_privacy)
        check_target(*arm.manifest, *first_of_level(plan, arm.arm->level).manifest,
                     given.levels.has_value());
      const auto begin = std::chrono::steady_clock::now();
      arm.plan = make_plan(*arm.manifest);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      arm.plan_seconds = taken.count();
      drop_initial_weights(arm.plan);
      if (given.equal_privacy && !arm.is_reference()) check_guarantee(arm.plan);
      check_metrics(arm.plan, given);
      check_sample(*arm.manifest, given);
    });
  }
  problems.throw_if_any();
  if (given.equal_privacy) check_baselines(plan);
  find_same_runs(plan);
  plan.stains = stains_of(plan);
  return plan;
}

ArmFacts facts_of(const StudyPlan& plan, std::size_t index) {
  const PlannedArm& planned = plan.arms[index];
  ArmFacts arm{.name = planned.arm->name,
               .variant = planned.arm->variant,
               .labels = planned.arm->labels,
               .set = facts_of(planned.arm->changes),
               .epsilon = finite(planned.plan.epsilon().value),
               .delta = planned.plan.manifest->target_delta};
  if (plan.study->levels) arm.level = plan.study->levels->values[planned.arm->level].label;
  if (plan.is_reference(index)) arm.reference = true;
  if (!plan.has_own_runs(index)) arm.same_as = plan.arms[planned.runs_of].arm->name;
  return arm;
}

StudyBase base_facts(const StudyPlan& plan) {
  const Study& study = *plan.study;
  StudyBase facts{.study = 1,
                  .name = study.name,
                  .privgrad = std::string(version()),
                  .baseline = study.arms[study.baselines.front()].variant,
                  .unit = std::string(to_text(PrivacyUnit::example)),
                  .seeds = study.seeds,
                  .search = search_facts(study),
                  .equivalence = study.equivalence,
                  .equal_privacy = study.equal_privacy,
                  .training_data_is_public = study.training_data_is_public,
                  .titles = study.titles,
                  .stains = plan.stains,
                  .remarks = study_remarks(plan),
                  .curves = study.curves};
  for (const StudyMetric& metric : study.metrics) facts.metrics.push_back(facts_of(metric));
  if (const auto& rule = study.seed_rule)
    facts.seed_rule = SeedRuleFacts{rule->widths, rule->at_least, rule->at_most};
  facts.target_epsilon = common<double>(plan, [](const Plan& p) {
    return p.manifest->noise_off ? std::nullopt : p.manifest->target_epsilon;
  });
  facts.target_delta = common<double>(plan, [](const Plan& p) { return p.manifest->target_delta; });
  facts.adjacency =
      common<Text>(plan, [](const Plan& p) { return std::string(to_text(p.manifest->adjacency)); });
  if (study.levels) facts.levels = facts_of(*study.levels);
  for (const Axis& axis : study.axes) facts.axes.push_back(facts_of(axis));
  return facts;
}

nlohmann::json to_json(const StudyPlan& plan) {
  StudyFacts facts{base_facts(plan), {}};
  for (std::size_t a = 0; a < plan.arms.size(); ++a) facts.arms.push_back(planned_facts(plan, a));
  return to_json(facts);
}

}  // namespace privgrad::core
