// What a study says: the members of study.json and results.json.
#pragma once

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

using Interval = std::array<double, 2>;
template <class T>
using Named = std::map<Text, T>;

/// better: "higher" or "lower".
struct MetricFacts {
  PRIVGRAD_FACTS((Text, name, better))
};

/// Keys that vary together, and a label for each of their values.
struct AxisFacts {
  PRIVGRAD_FACTS((Texts, keys, labels))
};

/// until: the widest permitted interval of each metric's differences; at_least, at_most: numbers of
/// seeds.
struct SeedRuleFacts {
  PRIVGRAD_FACTS((Named<double>, until), (Count, at_least, at_most))
};

/// The rows on which a search scored, and how many of them the comparison also uses. Rows are the
/// same if their features have the same bytes.
struct ScoredRows {
  // split: "test" or "training"; training_in_common: the number of the search's training rows on
  // which the comparison also trains; data_sets: the number of different data sets that the arms
  // use; the other numbers are the largest over these data sets. read_alike: whether search and
  // comparison read rows in the same way. If not, a row has different features in each, and the
  // numbers count only rows that happen to be equal.
  PRIVGRAD_FACTS((Text, split),
                 (Count, rows, also_trained_on, also_tested_on, training_in_common, data_sets),
                 (bool, read_alike))

  /// Whether the search saw no row on which the comparison trains.
  bool are_others() const { return read_alike && training_in_common == 0 && also_trained_on == 0; }
};

/// The candidate that a search chose for an arm. score: the mean over the search's seeds; epsilon:
/// the cost of the choice, at the arm's delta; why: the reason if no epsilon is proved.
struct ChoiceFacts {
  PRIVGRAD_FACTS((Text, arm, candidate, why), (Named<nlohmann::json>, set), (double, score),
                 (Texts, at_edge), (Count, runs), (Nullable<double>, epsilon))
};

struct SearchFacts {
  // over: the axes of all variants; arms: the additional axes of single variants.
  PRIVGRAD_FACTS((std::vector<AxisFacts>, over), (Named<std::vector<AxisFacts>>, arms),
                 (std::vector<Count>, seeds), (Named<nlohmann::json>, set), (MetricFacts, score),
                 (Nullable<ScoredRows>, rows), (std::vector<ChoiceFacts>, choices))
};

/// reference: whether the arm has no privacy and is not compared; same_as: the arm whose runs this
/// arm uses.
struct ArmFacts {
  PRIVGRAD_FACTS((Text, name, variant), (Nullable<Text>, level), (Named<Text>, labels),
                 (Named<nlohmann::json>, set), (Nullable<double>, epsilon), (double, delta),
                 (std::optional<bool>, reference), (std::optional<Text>, same_as))
  bool is_reference() const { return reference.value_or(false); }
};

struct PlannedArmFacts : ArmFacts {
  // noise_multiplier: the smallest and the largest; floating_point: floating_point_json().
  PRIVGRAD_FACTS_BESIDE(ArmFacts, (Count, steps), (Text, adjacency, accountant, bound),
                        (bool, rescaled, noise_adapts), (double, noise_factor),
                        (std::vector<Nullable<double>>, noise_multiplier),
                        (nlohmann::json, floating_point), (Texts, unaccounted))
};

/// values: the metric for each seed; null if the run has no such metric.
struct MeanFacts {
  PRIVGRAD_FACTS((Nullable<double>, mean, std_), (Nullable<Interval>, ci95),
                 (std::vector<Nullable<double>>, values))
};

/// The number of seeds with which `effect` is found with a probability of 0.8; null if above a
/// million.
struct SeedsToFind {
  PRIVGRAD_FACTS((double, effect), (Nullable<Count>, seeds))
};

/// The difference to the baseline, paired by seed. Without a margin for equivalence, `margin`,
/// `p_equivalent` and `p_equivalent_holm` are absent.
struct DifferenceFacts {
  PRIVGRAD_FACTS((Nullable<double>, difference, p, p_holm, p_sign_flip, p_sign_flip_holm),
                 (Nullable<Interval>, ci95), (std::optional<SeedsToFind>, seeds_to_find),
                 (std::optional<double>, margin),
                 (std::optional<Nullable<double>>, p_equivalent, p_equivalent_holm))
};

/// statuses: the number of runs that ended in each way.
struct ArmResults : ArmFacts {
  PRIVGRAD_FACTS_BESIDE(ArmFacts, (Count, runs), (Named<Count>, statuses),
                        (std::vector<Count>, steps), (Named<MeanFacts>, metrics),
                        (Named<DifferenceFacts>, versus_baseline))
};

struct FactorValue {
  PRIVGRAD_FACTS((Text, label), (Nullable<double>, mean), (Nullable<Interval>, ci95))
};

/// A metric's means for each value of a factor, over all combinations of the other factors.
/// combinations: their number.
struct MainEffect {
  PRIVGRAD_FACTS((Text, factor), (Count, combinations), (std::vector<FactorValue>, values),
                 (Nullable<double>, p, p_holm))
};

/// A metric's means for two factors, as [value of the first factor][value of the second factor].
struct Interaction {
  PRIVGRAD_FACTS((Texts, factors), (Count, combinations),
                 (std::vector<std::vector<Nullable<double>>>, means), (Nullable<double>, p, p_holm))
};

struct FactorFacts {
  PRIVGRAD_FACTS((std::vector<MainEffect>, main), (std::vector<Interaction>, interactions))
};

/// The cost of choosing among all runs. why: the reason if no epsilon is proved.
struct GridCost {
  PRIVGRAD_FACTS((Nullable<double>, epsilon), (Text, why, accountant), (Count, runs),
                 (double, delta), (Nullable<Text>, bound))
};

/// The cost of choosing among a random number of runs.
struct RandomNumberCost {
  PRIVGRAD_FACTS((Text, distribution, why, theorem), (double, expected_runs, delta),
                 (Nullable<double>, epsilon), (Nullable<Text>, accountant))
};

/// score: "public" or "private".
struct BestArmFacts {
  PRIVGRAD_FACTS((Nullable<Text>, best), (Text, metric, score), (bool, training_data_is_public),
                 (Count, candidates), (Nullable<GridCost>, fixed_grid),
                 (std::vector<RandomNumberCost>, random_number), (Texts, words))
};

/// target_epsilon, target_delta and adjacency are null if private arms differ in them.
struct StudyBase {
  PRIVGRAD_FACTS((Count, study), (Text, name, privgrad, baseline, unit),
                 (std::vector<Count>, seeds), (std::vector<MetricFacts>, metrics),
                 (Nullable<SearchFacts>, search), (Nullable<SeedRuleFacts>, seed_rule),
                 (Named<double>, equivalence), (bool, equal_privacy, training_data_is_public),
                 (Nullable<double>, target_epsilon, target_delta), (Nullable<Text>, adjacency),
                 (Nullable<AxisFacts>, levels), (std::vector<AxisFacts>, axes),
                 (Named<Text>, titles), (Texts, stains, remarks), (UnlessEmpty<Texts>, curves))
};

/// study.json
struct StudyFacts : StudyBase {
  PRIVGRAD_FACTS_BESIDE(StudyBase, (std::vector<PlannedArmFacts>, arms))
};

/// results.json. commit: only in copies beside documents.
struct StudyResults : StudyBase {
  PRIVGRAD_FACTS_BESIDE(StudyBase, (std::vector<ArmResults>, arms), (Texts, words, search_words),
                        (Named<Nullable<FactorFacts>>, factors), (BestArmFacts, choice),
                        (std::optional<Text>, commit))
};

}  // namespace privgrad::core
