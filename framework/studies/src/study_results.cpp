#include "privgrad/studies/study_results.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "metric_values.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/record/short_numbers.hpp"
#include "privgrad/studies/choice_cost.hpp"
#include "privgrad/studies/study_factors.hpp"
#include "privgrad/studies/study_search.hpp"

namespace privgrad::core {
namespace {

/// The metrics that every run measures, and any others that this study requests.
std::vector<std::string> columns_of(const Study& study) {
  std::vector<std::string> names{"train_loss", "train_accuracy", "test_loss", "test_accuracy"};
  for (const StudyMetric& metric : study.metrics) {
    if (std::ranges::find(names, metric.name) == names.end()) names.push_back(metric.name);
  }
  return names;
}

// ---- results.csv

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string csv_number(const std::optional<double>& value) {
  return value ? format_number(*value) : "";
}

std::vector<std::string> varied_keys(const Study& study) {
  std::vector<std::string> keys;
  for (const Axis& axis : varied_axes(study))
    keys.insert(keys.end(), axis.keys.begin(), axis.keys.end());
  return keys;
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += (i == 0 ? "" : ",") + csv_text(cells[i]);
  return line + "\n";
}

// ---- statistics

bool has_diverged(const RunRecord& run) { return run.status == "diverged"; }

std::optional<PairedComparison> compare(const std::vector<RunRecord>& arm,
                                        const std::vector<RunRecord>& baseline,
                                        const std::string& metric, std::size_t looks) {
  const auto own = values_of(arm, metric);
  const auto other = values_of(baseline, metric);
  if (!own || !other) return std::nullopt;
  std::vector<double> differences;
  for (std::size_t i = 0; i < own->size(); ++i) differences.push_back((*own)[i] - (*other)[i]);
  return compare_with_zero(differences, looks);
}

/// The comparisons of all arms in one metric, with Holm's correction over them.
struct Family {
  /// One per arm; nothing for arms that are not compared.
  std::vector<std::optional<PairedComparison>> arms;
  std::vector<std::optional<double>> p_holm, p_sign_flip_holm;
  std::optional<double> margin;  ///< The margin for equivalence, if the study has one.
  std::vector<std::optional<double>> p_equivalent, p_equivalent_holm;
};

/// Holm's correction over the compared arms. Arms with the same runs count as one test.
std::vector<std::optional<double>> corrected(const StudyPlan& plan,
                                             const std::vector<std::optional<double>>& p,
                                             const std::vector<std::size_t>& who) {
  std::vector<std::optional<double>> of_others, all(p.size());
  for (const std::size_t arm : who) of_others.push_back(p[arm]);
  const auto adjusted = holm(of_others);
  for (std::size_t i = 0; i < who.size(); ++i) all[who[i]] = adjusted[i];
  for (std::size_t a = 0; a < all.size(); ++a) all[a] = all[plan.arms[a].runs_of];
  return all;
}

/// The index of the baseline with which an arm is compared; for a baseline, its own index.
std::size_t baseline_at(const StudyPlan& plan, std::size_t arm) {
  return plan.study->baselines[plan.study->arms[arm].level];
}

Family compare_all(const StudyPlan& plan, const StudyRuns& runs, const std::string& metric) {
  const std::size_t looks = looks_of(*plan.study);
  Family family;
  if (const auto margin = plan.study->equivalence.find(metric);
      margin != plan.study->equivalence.end())
    family.margin = margin->second;
  std::vector<std::optional<double>> p(runs.size()), p_sign_flip(runs.size());
  family.p_equivalent.resize(runs.size());
  std::vector<std::size_t> who;
  for (std::size_t a = 0; a < runs.size(); ++a) {
    const std::size_t baseline = baseline_at(plan, a);
    const bool is_compared = a != baseline && !plan.is_reference(a);
    family.arms.push_back(is_compared ? compare(runs[a], runs[baseline], metric, looks)
                                      : std::nullopt);
    if (!is_compared) continue;
    if (plan.has_own_runs(a)) who.push_back(a);
    if (!family.arms[a]) continue;
    p[a] = family.arms[a]->p;
    p_sign_flip[a] = family.arms[a]->p_sign_flip;
    if (family.margin) {
      family.p_equivalent[a] =
          equivalence_p(family.arms[a]->difference, runs[a].size(), *family.margin, looks);
    }
  }
  family.p_holm = corrected(plan, p, who);
  family.p_sign_flip_holm = corrected(plan, p_sign_flip, who);
  family.p_equivalent_holm = corrected(plan, family.p_equivalent, who);
  return family;
}

MeanFacts mean_of(const std::vector<RunRecord>& runs, const std::string& metric,
                  std::size_t looks) {
  MeanFacts facts;
  for (const RunRecord& run : runs) {
    const auto found = run.metrics.find(metric);
    facts.values.push_back(found == run.metrics.end() ? std::nullopt : found->second);
  }
  if (const auto values = values_of(runs, metric)) {
    const SampleSummary summary = summarize(*values, looks);
    facts.mean = summary.mean;
    facts.std_ = summary.std;
    facts.ci95 = summary.ci95;
  }
  return facts;
}

/// The effect for which the power is reported: the margin, or the observed difference.
double effect_of(const Family& family, std::size_t arm) {
  return family.margin.value_or(family.arms[arm] ? std::abs(family.arms[arm]->difference.mean)
                                                 : 0.0);
}

DifferenceFacts difference_of(const Family& family, std::size_t arm) {
  DifferenceFacts facts{.p_holm = family.p_holm[arm],
                        .p_sign_flip_holm = family.p_sign_flip_holm[arm],
                        .margin = family.margin};
  if (family.margin) {
    facts.p_equivalent = family.p_equivalent[arm];
    facts.p_equivalent_holm = family.p_equivalent_holm[arm];
  }
  const auto& one = family.arms[arm];
  if (!one) return facts;
  facts.difference = one->difference.mean;
  facts.ci95 = one->difference.ci95;
  facts.p = one->p;
  facts.p_sign_flip = one->p_sign_flip;
  const double effect = effect_of(family, arm), spread = one->difference.std.value_or(0.0);
  if (spread > 0.0 && effect != 0.0)
    facts.seeds_to_find = SeedsToFind{effect, pairs_to_find(effect, spread)};
  return facts;
}

bool is_precise(const StudyPlan& plan, const StudyRuns& runs) {
  for (const auto& [metric, width] : plan.study->seed_rule->widths) {
    const Family family = compare_all(plan, runs, metric);
    for (const auto& one : family.arms) {
      if (!one || !one->difference.ci95) continue;
      const auto& [low, high] = *one->difference.ci95;
      if (high - low > width) return false;
    }
  }
  return true;
}

// ---- in words

std::string short_text(double value) { return short_number(value, 3); }

/// The text of a p value, which is never rounded down.
std::string p_text(const std::optional<double>& p) {
  if (!p) return "none";
  if (*p < 0.0001) return "below 0.0001";
  return fixed_bound(*p, 4);
}

/// The significance level of claims.
constexpr double kLevel = 0.05;

bool is_small(const std::optional<double>& p) { return p && *p < kLevel; }

/// The results of both tests in words; says if pairs are too few for sign flips to reach kLevel.
std::string tests_text(const Family& family, std::size_t arm, std::size_t pairs,
                       std::size_t looks) {
  const PairedComparison& one = *family.arms[arm];
  std::string text = "p " + p_text(one.p) + " (Holm " + p_text(family.p_holm[arm]) +
                     ", sign flips " + p_text(one.p_sign_flip);
  const double least = std::min(1.0, static_cast<double>(looks) * least_sign_flip_p(pairs));
  if (one.p_sign_flip && least >= kLevel) {
    text += "; with " + std::to_string(pairs) + " pairs they cannot go below " + short_text(least);
  }
  return text + ")";
}

/// Student's t assumes normal differences. A few differences cannot show normality, so sign flips
/// must confirm a claim. With many pairs no flips are tried, because the normal approximation is
/// good enough.
std::string verdict(const Family& family, std::size_t arm) {
  const PairedComparison& one = *family.arms[arm];
  if (!is_small(one.p)) return "chance can explain it";
  if (!is_small(family.p_holm[arm])) return "this does not stand after Holm's correction";
  if (!one.p_sign_flip || is_small(family.p_sign_flip_holm[arm]))
    return "this stands after Holm's correction";
  return "after Holm's correction Student's t finds it, and sign flips do not";
}

/// Says in words whether the difference is within the margin, and how many seeds would detect the
/// effect.
std::string power_text(const Family& family, std::size_t arm) {
  const PairedComparison& one = *family.arms[arm];
  const double effect = effect_of(family, arm);
  std::string text;
  if (family.margin) {
    const bool shown = is_small(family.p_equivalent_holm[arm]);
    text += std::string("; that it is within ") + short_text(*family.margin) +
            (shown ? " stands" : " is not shown") + " (p " + p_text(family.p_equivalent[arm]) +
            ", Holm " + p_text(family.p_equivalent_holm[arm]) + ")";
  }
  if (is_small(family.p_holm[arm]) || effect == 0.0 || one.difference.std.value_or(0.0) == 0.0)
    return text;
  const auto pairs = pairs_to_find(effect, *one.difference.std);
  return text + "; one test of a difference of " + short_text(effect) + " would take " +
         (pairs ? std::to_string(*pairs) : "over a million") +
         " seeds to find it with a probability of 0.8";
}

/// The name of an arm, followed by the names of arms with the same runs.
std::string names_of(const StudyPlan& plan, std::size_t arm) {
  std::string names = plan.arms[arm].arm->name;
  for (std::size_t a = arm + 1; a < plan.arms.size(); ++a)
    if (plan.arms[a].runs_of == arm) names += ", " + plan.arms[a].arm->name;
  return names;
}

std::string sentence(const StudyPlan& plan, const StudyMetric& metric, const Family& family,
                     std::size_t arm, const StudyRuns& all) {
  const std::size_t runs = all[arm].size();
  const std::string who = names_of(plan, arm) + ": " + metric.name;
  const auto& one = family.arms[arm];
  for (const std::size_t side : {arm, baseline_at(plan, arm)}) {
    const auto diverged = std::ranges::count_if(all[side], has_diverged);
    if (diverged == 0) continue;
    return who + " is not compared: " + std::to_string(diverged) + " of " +
           std::to_string(all[side].size()) + " runs" + (side == arm ? "" : " of the baseline") +
           " diverged.";
  }
  if (!one) return who + " was not measured in every run, so it is not compared.";
  const double difference = one->difference.mean;
  if (difference == 0.0 && one->difference.std == 0.0)
    return who + " is that of the baseline in every pair.";
  const bool better = (difference > 0.0) == metric.higher_is_better;
  const std::string by = who + (difference == 0.0 ? " is equal on average"
                                                  : " is " + short_text(std::abs(difference)) +
                                                        (difference > 0.0 ? " higher" : " lower") +
                                                        (better ? " (better)" : " (worse)"));
  if (!one->difference.ci95) return by + " in a single pair, which says nothing about chance.";
  if (!one->p) return by + " in all of " + std::to_string(runs) + " pairs alike.";
  const auto& [low, high] = *one->difference.ci95;
  return by + ", 95 % interval " + short_text(low) + " to " + short_text(high) + ", " +
         tests_text(family, arm, runs, looks_of(*plan.study)) + "; " + verdict(family, arm) +
         power_text(family, arm) + ".";
}

/// The effect of the study's SeedRule in words, and its cost; "" without a rule.
std::string rule_text(const StudyPlan& plan, const StudyRuns& runs) {
  const Study& study = *plan.study;
  if (!study.seed_rule) return "";
  std::string widths, looks;
  for (const auto& [metric, width] : study.seed_rule->widths)
    widths += (widths.empty() ? "" : ", ") + metric + " " + short_text(width);
  const auto all = looks_between(study.seed_rule->at_least, study.seed_rule->at_most);
  for (const std::size_t look : all) looks += (looks.empty() ? "" : ", ") + std::to_string(look);
  return "Seeds were added until the intervals of all differences were at most so wide: " + widths +
         "; with looks at " + looks + " seeds. It ended at " + std::to_string(study.seeds.size()) +
         ", where they " + (is_precise(plan, runs) ? "are" : "are not") +
         ". Intervals and p hold for all " + std::to_string(all.size()) +
         " looks together (Bonferroni).";
}

// ---- choosing

/// Whether an arm can be chosen: arms with the same runs count once, and references do not count.
bool is_candidate(const StudyPlan& plan, std::size_t arm) {
  return plan.has_own_runs(arm) && !plan.is_reference(arm);
}

std::optional<std::size_t> best_arm(const StudyPlan& plan, const StudyRuns& runs,
                                    const StudyMetric& metric) {
  std::optional<std::size_t> best;
  double best_mean = 0.0;
  for (std::size_t a = 0; a < runs.size(); ++a) {
    if (!is_candidate(plan, a)) continue;
    const auto values = values_of(runs[a], metric.name);
    if (!values) continue;
    const double mean = summarize(*values).mean;
    if (best && !(metric.higher_is_better ? mean > best_mean : mean < best_mean)) continue;
    best = a;
    best_mean = mean;
  }
  return best;
}

bool score_is_public(const StudyPlan& plan, const StudyMetric& metric) {
  const bool of_test = metric.name.starts_with("test_");
  return plan.study->training_data_is_public ||
         (of_test && std::ranges::all_of(plan.arms, [](const PlannedArm& arm) {
            return arm.manifest->test_is_public;
          }));
}

std::string epsilon_text(const ChoiceCost& cost) {
  if (!cost.epsilon) return "no finite epsilon is proved (" + cost.why + ")";
  return "epsilon " + fixed_bound(cost.epsilon->value, 4);
}

Nullable<double> epsilon_of(const ChoiceCost& cost) {
  return cost.epsilon ? finite(cost.epsilon->value) : std::nullopt;
}

/// Adds the cost of choosing to `choice`.
/// \param search  a search whose cost counts because it trained on the same rows; nullptr if there
///   is no such search.
void add_costs(const StudyPlan& plan, const StudyPlan* search, BestArmFacts& choice) {
  std::vector<CountedPlan> all;
  std::vector<const Plan*> arms;
  std::uint64_t runs = 0;
  const auto count = [&](const StudyPlan& part) {
    for (std::size_t a = 0; a < part.arms.size(); ++a) {
      if (!is_candidate(part, a)) continue;
      all.push_back({&part.arms[a].plan, part.study->seeds.size()});
      runs += part.study->seeds.size();
    }
  };
  count(plan);
  const std::uint64_t compared = runs;
  if (search != nullptr) count(*search);
  for (std::size_t a = 0; a < plan.arms.size(); ++a)
    if (is_candidate(plan, a)) arms.push_back(&plan.arms[a].plan);
  const double delta = arms.front()->manifest->target_delta;
  const ChoiceCost grid = composed_cost(all, delta);
  choice.fixed_grid = GridCost{.epsilon = epsilon_of(grid),
                               .why = grid.why,
                               .accountant = arms.front()->accountants.front().name,
                               .runs = runs,
                               .delta = delta};
  if (grid.epsilon) choice.fixed_grid->bound = std::string(to_text(grid.epsilon->bound));
  const auto counted = [](std::uint64_t number, const char* what) {
    return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
  };
  const std::string each =
      counted(runs, "run") + " (" + counted(arms.size(), "arm") + ", " +
      counted(plan.study->seeds.size(), "seed") +
      (search == nullptr ? "" : ", and " + std::to_string(runs - compared) + " of the search") +
      ")";
  Texts& words = choice.words;
  words.push_back(grid.epsilon ? "Choosing the best after all of these " + each +
                                     " costs their composition: " + epsilon_text(grid) +
                                     " at delta " + format_number(delta) + "."
                               : "No finite epsilon is proved for choosing the best of these " +
                                     each + ": " + grid.why + ".");
  // A random number of runs is offered only if no search counts.
  if (search != nullptr) return;
  const auto expected = static_cast<double>(arms.size());
  const ChoiceCost geometric = random_number_cost(arms, 1.0, expected, delta);
  const ChoiceCost poisson =
      random_number_cost(arms, RepeatAndSelectEvent::kPoisson, expected, delta);
  const auto add = [&](Text name, const ChoiceCost& cost, Text theorem) {
    choice.random_number.push_back(
        {std::move(name), cost.why, std::move(theorem), expected, delta, epsilon_of(cost), {}});
    if (!cost.accountant.empty()) choice.random_number.back().accountant = cost.accountant;
  };
  add("geometric", geometric, "Liu and Talwar 2019");
  add("poisson", poisson, "Papernot and Steinke 2022");
  if (!geometric.epsilon && !poisson.epsilon) return;
  words.push_back(
      "Releasing only the best of a random number of runs, each of an arm drawn at random, with " +
      std::to_string(arms.size()) + " runs expected, would cost " + epsilon_text(geometric) +
      " (geometric; Liu and Talwar 2019) or " + epsilon_text(poisson) +
      " (Poisson; Papernot and Steinke 2022) at the same delta.");
}

/// The study's search, unless it is known to have seen none of the rows on which the comparison
/// trains: choosing by such a search costs these rows nothing.
const StudyPlan* search_that_counts(const StudyPlan& plan) {
  const auto& rows = plan.study->scored_rows;
  return rows && rows->are_others() ? nullptr : plan.search.get();
}

BestArmFacts best_facts(const StudyPlan& plan, const StudyRuns& runs) {
  const Study& study = *plan.study;
  std::size_t candidates = 0, references = 0;
  for (std::size_t a = 0; a < plan.arms.size(); ++a) {
    candidates += is_candidate(plan, a) ? 1 : 0;
    references += plan.is_reference(a) ? 1 : 0;
  }
  const auto best = best_arm(plan, runs, study.metrics.front());
  const StudyPlan* search = search_that_counts(plan);
  // The search's metric if only that metric was computed on private rows.
  std::string metric = study.metrics.front().name;
  bool is_public = score_is_public(plan, study.metrics.front());
  if (is_public && search != nullptr) {
    const StudyMetric& score = search->study->metrics.front();
    is_public = score_is_public(*search, score);
    if (!is_public) metric = score.name;
  }
  BestArmFacts choice{.metric = study.metrics.front().name,
                      .score = is_public ? "public" : "private",
                      .training_data_is_public = study.training_data_is_public,
                      .candidates = candidates};
  if (study.levels) {
    choice.words = {"Arms are compared only within a level; no best arm is chosen across levels."};
    return choice;
  }
  if (best) choice.best = plan.arms[*best].arm->name;
  if (candidates == 1 && search == nullptr) {
    choice.words = {"There is one arm, so nothing was chosen."};
    return choice;
  }
  if (study.training_data_is_public) {
    choice.words = {
        "The study declares its training data public: choosing an arm by it costs the private data "
        "of a later run nothing."};
    return choice;
  }
  Texts& words = choice.words;
  if (references > 0)
    words.push_back(
        "Arms without privacy are not candidates; their results disclose private rows that nothing "
        "protects.");
  words.push_back(
      "An arm's epsilon is that of one run. Choosing among arms that were trained on private data "
      "costs more, also where the score is public.");
  add_costs(plan, search, choice);
  words.push_back(
      is_public ? "The score (" + metric +
                      ") is measured on examples that are declared public, so measuring it adds "
                      "nothing."
                : "The score (" + metric +
                      ") was measured exactly on examples that are not declared public, and no "
                      "epsilon covers that: the figures hold for scores that are public or paid "
                      "for.");
  words.push_back(
      "The figures are for runs with fresh, secret noise. The runs of this study have known seeds "
      "and share their noise across arms, so that they can be compared; they are research, not for "
      "release.");
  return choice;
}

}  // namespace

std::optional<std::vector<double>> values_of(const std::vector<RunRecord>& runs,
                                             const std::string& metric) {
  std::vector<double> values;
  for (const RunRecord& run : runs) {
    const auto found = run.metrics.find(metric);
    if (has_diverged(run) || found == run.metrics.end() || !found->second ||
        !std::isfinite(*found->second)) {
      return std::nullopt;
    }
    values.push_back(*found->second);
  }
  return values;
}

std::vector<RunRecord> runs_as(const Plan& plan, std::vector<RunRecord> runs) {
  const double epsilon = plan.epsilon().value;
  for (RunRecord& run : runs) {
    // A run that diverged made fewer steps, which cost no more than all steps.
    run.epsilon = std::isfinite(epsilon) ? std::optional(epsilon) : std::nullopt;
    run.delta = plan.manifest->target_delta;
  }
  return runs;
}

std::string results_csv(const StudyPlan& plan, const StudyRuns& runs) {
  const std::vector<std::string> keys = varied_keys(*plan.study);
  std::vector<std::string> head{"arm", "seed"};
  head.insert(head.end(), keys.begin(), keys.end());
  head.insert(head.end(), {"status", "steps", "epsilon", "delta"});
  const std::vector<std::string> metrics = columns_of(*plan.study);
  head.insert(head.end(), metrics.begin(), metrics.end());
  std::string text = csv_line(head);
  for (std::size_t a = 0; a < runs.size(); ++a) {
    const Arm& arm = *plan.arms[a].arm;
    for (std::size_t s = 0; s < runs[a].size(); ++s) {
      const RunRecord& run = runs[a][s];
      std::vector<std::string> cells{arm.name, std::to_string(plan.study->seeds[s])};
      for (const std::string& key : keys) {
        const auto found = arm.labels.find(key);
        cells.push_back(found == arm.labels.end() ? "" : found->second);
      }
      cells.insert(cells.end(),
                   {run.status, std::to_string(run.steps),
                    run.epsilon ? format_number(*run.epsilon) : "inf", format_number(run.delta)});
      for (const std::string& metric : metrics) cells.push_back(csv_number(run.metrics.at(metric)));
      text += csv_line(cells);
    }
  }
  return text;
}

std::optional<std::size_t> next_seeds(const StudyPlan& plan, const StudyRuns& runs) {
  const Study& study = *plan.study;
  if (!study.seed_rule || is_precise(plan, runs)) return std::nullopt;
  const auto looks = looks_between(study.seed_rule->at_least, study.seed_rule->at_most);
  const auto next = std::ranges::upper_bound(looks, study.seeds.size());
  if (next == looks.end()) return std::nullopt;
  return *next;
}

nlohmann::json results_json(const StudyPlan& plan, const StudyRuns& runs) {
  const Study& study = *plan.study;
  StudyResults results{base_facts(plan),       {}, {}, search_words(study), {},
                       best_facts(plan, runs), {}};
  std::map<std::string, Family> families;
  for (const StudyMetric& metric : study.metrics) {
    families[metric.name] = compare_all(plan, runs, metric.name);
    results.factors[metric.name] = factor_facts(grid_of(plan, runs, metric.name), looks_of(study));
  }
  for (std::size_t a = 0; a < runs.size(); ++a) {
    ArmResults arm{facts_of(plan, a), runs[a].size(), {}, {}, {}, {}};
    for (const RunRecord& run : runs[a]) {
      arm.steps.push_back(run.steps);
      ++arm.statuses[run.status];
    }
    for (const StudyMetric& metric : study.metrics) {
      arm.metrics[metric.name] = mean_of(runs[a], metric.name, looks_of(study));
      if (a == baseline_at(plan, a) || plan.is_reference(a)) continue;
      const Family& family = families.at(metric.name);
      arm.versus_baseline[metric.name] = difference_of(family, a);
      if (plan.has_own_runs(a)) results.words.push_back(sentence(plan, metric, family, a, runs));
    }
    results.arms.push_back(std::move(arm));
  }
  if (std::string rule = rule_text(plan, runs); !rule.empty())
    results.search_words.push_back(std::move(rule));
  return to_json(results);
}

}  // namespace privgrad::core
