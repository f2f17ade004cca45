// What a privacy statement says: the members of statement.json.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "privgrad/record/members.hpp"

namespace privgrad::core {

using Count = std::uint64_t;
using Text = std::string;
using Texts = std::vector<std::string>;

/// The account that paid for a run, as its statement describes it.
struct AccountFacts {
  // opened: the hash of the account's first line; accountant: the full name of the privacy filter.
  PRIVGRAD_FACTS((Text, name, opened, accountant), (double, target_epsilon, target_delta))
};

/// An upper bound, at the plan's delta, on the cost of the plan's releases under random allocation
/// in epochs.
struct AllocationPrice {
  PRIVGRAD_FACTS((Count, steps_per_epoch), (Text, adjacency), (Nullable<double>, epsilon))
};

/// A fact that a manifest declares about its data. key: dotted, such as "data.columns.0"; value: on
/// one line, in the form of a manifest.
struct Declared {
  PRIVGRAD_FACTS((Text, key, value))
};

/// The unsigned statement of origin in a model file written by PrivGrad. Each text can be shown on
/// one line. account: the hash of the first line of the account that paid.
struct WeightsOrigin {
  PRIVGRAD_FACTS((Text, name, mode, epsilon, delta, unit, adjacency), (Texts, unaccounted),
                 (Nullable<Text>, account))
  bool operator==(const WeightsOrigin&) const = default;
};

/// The public facts about a model's initial weights: a part of facts.json.
struct WeightsFacts {
  // sha256: the hash of the file; loaded: the model's tensors whose values come from the file;
  // begun_anew: the model's other tensors; unused: the number of the file's tensors that were not
  // loaded; origin: only for models trained by PrivGrad.
  PRIVGRAD_FACTS((Text, sha256), (Texts, loaded, begun_anew), (Count, unused),
                 (Nullable<WeightsOrigin>, origin))
  bool operator==(const WeightsFacts&) const = default;
};

template <class Number>
struct Range {
  PRIVGRAD_FACTS((Number, smallest, largest))
};

/// An accountant's answer. epsilon: null if no finite epsilon is proved.
struct Answer {
  PRIVGRAD_FACTS((Nullable<double>, epsilon, lower), (Text, bound, note))
};

struct AnswerOfOther : Answer {
  PRIVGRAD_FACTS_BESIDE(Answer, (Text, accountant), (Count, steps))
};

/// The bound of membership_test() (membership.hpp), and the epsilon and delta that prove it.
struct MembershipTest {
  PRIVGRAD_FACTS((double, wrongly_accused, found_at_most), (Nullable<double>, epsilon),
                 (double, delta))
};

/// The manifest's `deployment`.
struct Deployment {
  PRIVGRAD_FACTS((UnlessEmpty<Texts>, curators),
                 (std::optional<Text>, name, intended_use, region, sector, description, data_domain,
                  actors, preprocessing, justification, sources))
};

/// The participants of a federated run, and who adds the noise.
struct FederationFacts {
  PRIVGRAD_FACTS((Count, clients, rounds, charged_estimates),
                 (Text, aggregation, noise_is_added_by, partition, participation, local_iterations,
                  estimates),
                 (bool, adaptive))
};

struct SamplingFacts {
  PRIVGRAD_FACTS((Text, sampler, means), (Nullable<Range<double>>, expected_batch_size),
                 (std::optional<AllocationPrice>, with_allocation))
};

/// Noise that steps share. own_noise_multiplier: the noise of the new part of each release;
/// planned_steps_of_an_example: the number of steps in which an example takes part. Older
/// statements have no `window`.
struct CorrelatedNoise {
  PRIVGRAD_FACTS((Nullable<Range<double>>, own_noise_multiplier), (bool, gradient_differences),
                 (Count, window), (Text, amplification),
                 (std::optional<Range<Count>>, planned_steps_of_an_example),
                 (std::optional<Count>, max_participations, min_separation, cycle),
                 (std::optional<Range<double>>, amplified_noise_multiplier),
                 (UnlessEmpty<std::vector<double>>, coefficients))
};

/// The measurements that adaptive noise followed, and the ledger's total after the run.
struct NoiseFollows {
  PRIVGRAD_FACTS((Text, schedule, measured), (Count, every), (Nullable<double>, spent_epsilon),
                 (Nullable<Count>, charged_checks),
                 (std::optional<double>, loss_bound, check_noise_multiplier))
};

struct MechanismFacts {
  PRIVGRAD_FACTS((Text, aggregator, clipping, charged_as),
                 (Nullable<Range<double>>, noise_multiplier), (bool, adaptive_clip_norm),
                 (std::optional<bool>, scales_coordinates),
                 (std::optional<CorrelatedNoise>, correlated),
                 (std::optional<NoiseFollows>, adaptive_noise),
                 (std::optional<Nullable<Range<double>>>, clip_norm),
                 (std::optional<double>, first_clip_norm))
};

using ReleasedValue = std::variant<Count, std::vector<double>>;

/// A statistic from which a transform learnt, or released counts of rows, which have no
/// `transform`.
struct StatisticFacts {
  PRIVGRAD_FACTS((Nullable<Count>, transform), (Text, name, what), (Count, numbers),
                 (double, l2_bound, noise_multiplier), (Nullable<double>, share),
                 (std::optional<ReleasedValue>, value),
                 (std::optional<double>, largest_class_weight),
                 (UnlessEmpty<std::vector<double>>, class_weights))
};

struct ReportFacts {
  PRIVGRAD_FACTS((double, noise_multiplier), (Nullable<double>, share),
                 (std::optional<Count>, every, patience))
};

struct Reported {
  PRIVGRAD_FACTS((ReportFacts, train_accuracy))
};

struct AugmentationFacts {
  PRIVGRAD_FACTS((Count, copies), (Texts, kinds))
};

/// Trained weights from which training begins. is: who vouches for them.
struct ClaimedWeights : WeightsFacts {
  PRIVGRAD_FACTS_BESIDE(WeightsFacts, (Text, is))
};

/// frozen, frozen_behind: the tensors before the trained ones, and after them, that keep their
/// initial weights.
struct WeightsStated : ClaimedWeights {
  PRIVGRAD_FACTS_BESIDE(ClaimedWeights, (Texts, frozen), (UnlessEmpty<Texts>, frozen_behind))
};

/// adapted: the tensors that get low-rank changes; trained: the tensors that are trained in full.
struct AdaptersFacts {
  PRIVGRAD_FACTS((Count, rank), (double, alpha), (Texts, adapted, trained))
};

struct UnaccountedFacts {
  PRIVGRAD_FACTS((Text, what, reaches), (UnlessEmpty<Text>, because))
};

/// true if a record says that the plugin's file passed its tests; "allowed" if there is no such
/// record, but the file's hash is allowed; "built_in" if a plugin of the program's own build has no
/// record; otherwise false.
using Tested = std::variant<bool, Text>;

/// Older statements have no `tested`.
struct PluginFacts {
  PRIVGRAD_FACTS((Text, name, version, sha256), (std::optional<Tested>, tested))
  bool operator==(const PluginFacts&) const = default;
};

/// The program's version, and the plugins that ran.
struct Versions {
  PRIVGRAD_FACTS((Text, privgrad), (std::vector<PluginFacts>, plugins))
  bool operator==(const Versions&) const = default;
};

/// A privacy statement (statement.hpp). Older statements have no `gaussian_mu`.
struct Statement : Answer {
  PRIVGRAD_FACTS_BESIDE(
      Answer,
      (Count, statement, steps, charged_steps, accounted_steps, planned_steps, dataset_size),
      (Text, name, status, accountant, setting, unit, adjacency, adjacency_means, dataset_size_is,
       released, tuning, test_rows, randomness, arithmetic, mode, stain, short_),
      (UnlessEmpty<Text>, date, proved_by, no_data_commitment), (bool, noise, reproducible),
      (double, delta), (Nullable<double>, target_epsilon), (std::vector<AnswerOfOther>, also),
      (Nullable<MembershipTest>, membership_test), (std::optional<double>, gaussian_mu),
      (std::optional<Deployment>, deployment), (std::optional<FederationFacts>, federated),
      (SamplingFacts, sampling), (MechanismFacts, mechanism),
      (UnlessEmpty<std::vector<StatisticFacts>>, statistics), (std::optional<Reported>, reported),
      (std::optional<AccountFacts>, account), (std::optional<AugmentationFacts>, augmentation),
      (std::optional<WeightsStated>, initial_weights), (std::optional<AdaptersFacts>, lora),
      (std::vector<UnaccountedFacts>, unaccounted),
      (std::optional<std::vector<Declared>>, declared),
      (Nullable<Text>, floating_point, data_commitment), (Versions, versions),
      (Texts, remarks, lead, prose))
};

}  // namespace privgrad::core
