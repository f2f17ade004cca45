#include "privgrad/studies/study_search.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "privgrad/record/short_numbers.hpp"
#include "privgrad/studies/choice_cost.hpp"
#include "privgrad/studies/scored_rows.hpp"
#include "study_labels.hpp"

namespace privgrad::core {
namespace {

struct Candidate {
  std::string name;
  std::map<std::string, std::string> labels;
  std::vector<ManifestChange> set;
};

std::vector<Axis> axes_of(const StudySearch& search, const std::string& variant) {
  std::vector<Axis> axes = search.over;
  if (const auto own = search.of_variant.find(variant); own != search.of_variant.end())
    axes.insert(axes.end(), own->second.begin(), own->second.end());
  return axes;
}

/// All candidates of a variant; the last axis varies fastest.
std::vector<Candidate> candidates_of(const Study& study, const std::string& variant) {
  std::vector<Candidate> all(1);
  const std::string file = study.file.string();
  const std::vector<Axis> axes = axes_of(*study.search, variant);
  if (axes.empty()) all.front().name = "as-given";
  for (const Axis& axis : axes) {
    std::vector<Candidate> longer;
    for (const Candidate& candidate : all) {
      for (const AxisValue& value : axis.values) {
        Candidate one = candidate;
        one.name += (one.name.empty() ? "" : "+") + value.label;
        for (std::size_t k = 0; k < axis.keys.size(); ++k) {
          one.labels[axis.keys[k]] = value.labels[k];
          one.set.push_back({axis.keys[k], value.values[k], file});
        }
        longer.push_back(std::move(one));
      }
    }
    all = std::move(longer);
  }
  return all;
}

/// The candidate's own changes of the searched keys: the last change of each key.
std::vector<ManifestChange> candidate_changes(const std::vector<Axis>& axes, const Arm& arm) {
  std::vector<ManifestChange> set;
  for (const Axis& axis : axes) {
    for (const std::string& key : axis.keys) {
      const auto is_it = [&](const ManifestChange& change) { return change.key == key; };
      const auto last = std::find_if(arm.changes.rbegin(), arm.changes.rend(), is_it);
      if (last != arm.changes.rend()) set.push_back(*last);
    }
  }
  return set;
}

/// The mean score of an arm of the search; nothing if the arm cannot be chosen.
std::optional<double> score_of(const std::vector<RunRecord>& runs, const std::string& metric) {
  double sum = 0.0;
  for (const RunRecord& run : runs) {
    const auto found = run.metrics.find(metric);
    const bool counts = run.status != "diverged" && found != run.metrics.end() && found->second &&
                        std::isfinite(*found->second);
    if (!counts) return std::nullopt;
    sum += *found->second;
  }
  return sum / static_cast<double>(runs.size());
}

/// The keys whose chosen number is the smallest or largest of at least three.
std::vector<std::string> keys_at_edge(const std::vector<Axis>& axes, const Arm& chosen) {
  std::vector<std::string> keys;
  for (const Axis& axis : axes) {
    std::vector<double> numbers;
    for (const AxisValue& value : axis.values) {
      if (const auto number = number_of_label(value.label)) numbers.push_back(*number);
    }
    if (numbers.size() != axis.values.size() || numbers.size() < 3) continue;
    const auto [low, high] = std::ranges::minmax_element(numbers);
    const auto label = chosen.labels.find(axis.keys.front());
    if (label == chosen.labels.end()) continue;
    const auto own = number_of_label(label->second);
    if (own == *low || own == *high) keys.push_back(axis.keys.front());
  }
  return keys;
}

std::vector<AxisFacts> facts_of_all(const std::vector<Axis>& axes) {
  std::vector<AxisFacts> all;
  for (const Axis& axis : axes) all.push_back(facts_of(axis));
  return all;
}

}  // namespace

std::vector<Axis> searched_axes(const StudySearch& search) {
  std::vector<Axis> axes = search.over;
  for (const auto& [variant, own] : search.of_variant)
    axes.insert(axes.end(), own.begin(), own.end());
  return axes;
}

std::size_t candidate_count(const StudySearch& search, const std::string& variant) {
  std::size_t count = 1;
  for (const Axis& axis : axes_of(search, variant))
    count = std::min(count * axis.values.size(), 2 * kMaxArms);
  return count;
}

Study search_study(const Study& study) {
  const StudySearch& search = *study.search;
  Study made;
  made.file = study.file;
  made.name = study.name + "-search";
  made.base_file = study.base_file;
  made.base = study.base;
  made.sets = study.sets;
  made.sets.insert(made.sets.end(), search.sets.begin(), search.sets.end());
  made.axes = searched_axes(search);
  made.seeds = search.seeds;
  made.metrics = {search.score};
  made.equal_privacy = study.equal_privacy;
  made.training_data_is_public = study.training_data_is_public;
  made.levels = Axis{.keys = {"for_arm"}, .values = {}};
  std::set<std::string> names;  // The names are used for folders, so they must be different.
  for (const Arm& arm : study.arms) {
    made.baselines.push_back(made.arms.size());
    for (const Candidate& candidate : candidates_of(study, arm.variant)) {
      Arm one{.name = arm.name + "+" + candidate.name,
              .variant = candidate.name,
              .level = made.levels->values.size(),
              .labels = candidate.labels,
              .changes = arm.changes};
      one.labels["for_arm"] = arm.name;
      one.changes.insert(one.changes.end(), candidate.set.begin(), candidate.set.end());
      if (!names.insert(one.name).second) {
        throw ConfigError(study.file.string() + ": two candidates of the search are called '" +
                          one.name + "'; rename an arm or a value");
      }
      made.arms.push_back(std::move(one));
    }
    made.levels->values.push_back({arm.name, {}, {arm.name}});
  }
  return made;
}

std::vector<Choice> choices_of(const Study& study, const StudyPlan& search, const StudyRuns& runs) {
  std::vector<Choice> choices;
  for (std::size_t level = 0; level < study.arms.size(); ++level) {
    std::optional<std::size_t> best;
    double best_score = 0.0;
    std::vector<CountedPlan> plans;
    std::size_t made = 0;
    for (std::size_t a = 0; a < search.arms.size(); ++a) {
      if (search.arms[a].arm->level != level) continue;
      plans.push_back({&search.arms[a].plan, runs[a].size()});
      made += runs[a].size();
      const auto score = score_of(runs[a], study.search->score.name);
      const bool higher = study.search->score.higher_is_better;
      if (!score || (best && !(higher ? *score > best_score : *score < best_score))) continue;
      best = a;
      best_score = *score;
    }
    if (!best) {
      throw ConfigError(study.file.string() + ": the search has no candidate for " +
                        study.arms[level].name + " all of whose runs ended with a finite " +
                        study.search->score.name);
    }
    const Arm& chosen = *search.arms[*best].arm;
    const std::vector<Axis> axes = axes_of(*study.search, study.arms[level].variant);
    Choice choice{.candidate = chosen.variant,
                  .set = candidate_changes(axes, chosen),
                  .score = best_score,
                  .at_edge = keys_at_edge(axes, chosen),
                  .runs = made,
                  .epsilon = {},
                  .why = {}};
    if (!study.training_data_is_public) {
      const ChoiceCost cost = composed_cost(plans, plans.front().plan->manifest->target_delta);
      if (cost.epsilon) choice.epsilon = cost.epsilon->value;
      choice.why = cost.why;
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

Study with_choices(Study study, std::vector<Choice> choices) {
  for (std::size_t a = 0; a < study.arms.size(); ++a) {
    auto& changes = study.arms[a].changes;
    changes.insert(changes.end(), choices[a].set.begin(), choices[a].set.end());
  }
  study.choices = std::move(choices);
  return study;
}

Study with_first_candidates(const Study& study) {
  std::vector<Choice> firsts;
  for (const Arm& arm : study.arms) {
    const Candidate first = candidates_of(study, arm.variant).front();
    firsts.push_back(
        {.candidate = first.name, .set = first.set, .at_edge = {}, .epsilon = {}, .why = {}});
  }
  Study made = with_choices(study, std::move(firsts));
  made.choices.clear();
  return made;
}

Nullable<SearchFacts> search_facts(const Study& study) {
  if (!study.search) return {};
  const StudySearch& search = *study.search;
  SearchFacts facts{.over = facts_of_all(search.over),
                    .seeds = search.seeds,
                    .set = facts_of(search.sets),
                    .score = facts_of(search.score),
                    .rows = study.scored_rows};
  for (const auto& [variant, axes] : search.of_variant) facts.arms[variant] = facts_of_all(axes);
  for (std::size_t a = 0; a < study.choices.size(); ++a) {
    const Choice& choice = study.choices[a];
    facts.choices.push_back({.arm = study.arms[a].name,
                             .candidate = choice.candidate,
                             .why = choice.why,
                             .set = facts_of(choice.set),
                             .score = choice.score,
                             .at_edge = choice.at_edge,
                             .runs = choice.runs,
                             .epsilon = choice.epsilon});
  }
  return facts;
}

namespace {

/// The axes with their values: "steps 50, 100; schedules.learning_rate 0.5, 1".
std::string words_of(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis& axis : axes) {
    text += (text.empty() ? "" : "; ") + axis.keys.front();
    for (const AxisValue& value : axis.values)
      text += (&value == &axis.values.front() ? " " : ", ") + value.label;
  }
  return text;
}

}  // namespace

std::vector<std::string> search_words(const Study& study) {
  std::vector<std::string> words;
  if (!study.search || study.choices.empty()) return words;
  const StudySearch& search = *study.search;
  std::string grid =
      search.over.empty() ? "" : " Candidates of all arms: " + words_of(search.over) + ".";
  std::set<std::string> named;  // Names each variant once; not every level has all variants.
  for (const Arm& arm : study.arms) {
    const auto own = search.of_variant.find(arm.variant);
    if (own == search.of_variant.end() || !named.insert(arm.variant).second) continue;
    grid += (search.over.empty() ? " Candidates of " : " For ") + arm.variant +
            (search.over.empty() ? ": " : ", each of these also with ") + words_of(own->second) +
            " (" + std::to_string(candidate_count(search, arm.variant)) + " in all).";
  }
  words.push_back("Each arm is at its own best candidate, by the mean " + search.score.name +
                  " over " + std::to_string(search.seeds.size()) +
                  (search.seeds.size() == 1 ? " seed" : " seeds") +
                  " that the comparison does not use." + grid);
  if (study.scored_rows) words.push_back(words_of(*study.scored_rows));
  std::set<std::string> edges;
  std::size_t runs = 0;
  double dearest = 0.0;
  bool is_proved = true;
  for (const Choice& choice : study.choices) {
    edges.insert(choice.at_edge.begin(), choice.at_edge.end());
    runs += choice.runs;
    is_proved = is_proved && choice.epsilon.has_value();
    dearest = std::max(dearest, choice.epsilon.value_or(0.0));
  }
  for (const std::string& key : edges) {
    std::string arms;
    for (std::size_t a = 0; a < study.choices.size(); ++a) {
      const auto& at = study.choices[a].at_edge;
      if (std::ranges::find(at, key) != at.end())
        arms += (arms.empty() ? "" : ", ") + study.arms[a].name;
    }
    words.push_back(std::string("The best ")
                        .append(key)
                        .append(" is at the end of its range for ")
                        .append(arms)
                        .append(": beyond it there may be a better one."));
  }
  std::string cost = "; no finite epsilon is proved for choosing by them.";
  if (study.training_data_is_public) {
    cost = ". The training data are declared public.";
  } else if (study.scored_rows && study.scored_rows->are_others()) {
    cost =
        ". They trained on none of the rows that the comparison trains on, so choosing by their "
        "scores costs those rows no privacy.";
  } else if (is_proved) {
    cost = "; choosing an arm's hyper-parameters after its own costs up to epsilon " +
           short_bound(dearest, 5) +
           ", which no comparison below includes; and no epsilon covers scores that are measured "
           "exactly on rows that are not public.";
  }
  words.push_back("The search took " + std::to_string(runs) + " runs" + cost);
  return words;
}

}  // namespace privgrad::core
