// What a plan says: the members of plan.json and schedules.json, and of clients.json, which adds
// what became of each client.
#pragma once

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

/// Values over steps, which ascend. Each value is valid from its step until the next listed step.
struct ValuesOfSteps {
  PRIVGRAD_FACTS((std::vector<Count>, step), (std::vector<double>, value))
};

/// exact: whether every change is listed, and not only evenly spread steps.
struct SlotFacts : ValuesOfSteps {
  PRIVGRAD_FACTS_BESIDE(ValuesOfSteps, (bool, exact))
};
using Slots = std::map<Text, SlotFacts>;

/// The bound on the expected excess risk before each listed step, relative to the excess risk
/// before the first step; optimum: the loss from which the excess is measured.
struct PredictedExcess : ValuesOfSteps {
  PRIVGRAD_FACTS_BESIDE(ValuesOfSteps, (double, optimum))
};

/// schedules.json. schedules: the version of the form, 1.
struct ScheduleRecord {
  PRIVGRAD_FACTS((Count, schedules, steps, affordable_steps), (Slots, slots),
                 (std::optional<PredictedExcess>, predicted_excess))
};

struct AutoFacts {
  PRIVGRAD_FACTS((double, value), (Text, reason))
};
using Autos = std::map<Text, AutoFacts>;
using Answers = std::map<Text, Answer>;

struct LoraTensor {
  PRIVGRAD_FACTS((Text, tensor), (Count, rank, parameters))
};

/// labels: the number of examples of each class, if they were counted.
struct PlannedClient {
  PRIVGRAD_FACTS((Count, dataset_size, affordable_steps),
                 (std::optional<Nullable<double>>, epsilon),
                 (UnlessEmpty<std::vector<Count>>, labels))
};

/// A line of a federated run's table of clients. Steps and estimates reveal participation, and are
/// absent if it is secret.
struct ClientFacts : PlannedClient {
  PRIVGRAD_FACTS_BESIDE(PlannedClient, (Count, client), (std::optional<Count>, steps, estimates),
                        (std::optional<double>, weight),
                        (std::optional<Nullable<double>>, charged_epsilon))
};

/// clients.json
struct ClientTable {
  PRIVGRAD_FACTS((std::vector<ClientFacts>, clients))
};

/// local_iterations: one number per round, or "adaptive".
struct PlannedFederation {
  PRIVGRAD_FACTS((std::vector<PlannedClient>, clients), (Count, rounds, affordable_steps),
                 (Text, aggregation, partition), (nlohmann::json, local_iterations),
                 (std::optional<std::vector<double>>, weights), (std::optional<Text>, estimates),
                 (std::optional<double>, estimate_noise))
};

/// The influence of each step's noise (influence_facts.hpp defines the other members).
struct PlannedInfluence {
  PRIVGRAD_FACTS((std::vector<double>, values), (std::optional<double>, weighted_noise, uniform),
                 (std::optional<Nullable<double>>, least, budget))
};

using TwoCounts = std::array<Count, 2>;

struct Quartiles {
  PRIVGRAD_FACTS((double, min, first_quartile, median, mean, third_quartile, max))
};

/// The costs of the examples' own steps, as rho of zCDP, in the drawn order. The largest cost is
/// the run's guarantee to everyone. steps_of_an_example: the smallest and the largest number of
/// batches that contain an example.
struct RhoOfExamples {
  PRIVGRAD_FACTS((Quartiles, rho), (TwoCounts, steps_of_an_example),
                 (std::optional<Count>, min_separation))
};

struct MeasuredValues {
  PRIVGRAD_FACTS((std::vector<Count>, step), (std::vector<Nullable<double>>, value))
};

/// The measurement that adaptive noise follows, and its cost; the last two members are known after
/// the run.
struct AdaptiveNoiseFacts {
  PRIVGRAD_FACTS((Text, measured), (Count, every), (Nullable<double>, unchanged_epsilon),
                 (std::optional<double>, loss_bound, check_noise_multiplier),
                 (std::optional<Nullable<double>>, checks_epsilon, spent_epsilon),
                 (std::optional<MeasuredValues>, measurements))
};

/// examples: the number that is in memory at once; bytes: approximately.
struct PassSize {
  PRIVGRAD_FACTS((Count, examples, bytes))
};

/// plan.json; trained_tensors and pass are only in the output of `privgrad plan --json`.
struct PlanFacts {
  PRIVGRAD_FACTS(
      (Text, name, adjacency, accountant, arithmetic, mode),
      (Count, steps, affordable_steps, parameters, dataset_size),
      (std::vector<double>, noise_multiplier, clip_norm, learning_rate, batch_size),
      (Nullable<double>, epsilon), (double, delta), (Answers, accountants),
      (nlohmann::json, network, event, floating_point), (Texts, unaccounted, remarks),
      (std::vector<Declared>, declared), (bool, reproducible),
      (std::optional<AllocationPrice>, with_allocation), (UnlessEmpty<Autos>, auto_),
      (UnlessEmpty<std::vector<double>>, optimized),
      (std::optional<ClaimedWeights>, initial_weights), (std::optional<Count>, frozen_parameters),
      (std::optional<std::vector<LoraTensor>>, lora), (std::optional<PlannedFederation>, federated),
      (std::optional<PlannedInfluence>, influence), (std::optional<RhoOfExamples>, participation),
      (std::optional<AdaptiveNoiseFacts>, adaptive_noise),
      (UnlessEmpty<std::vector<StatisticFacts>>, statistics), (std::optional<Reported>, reported),
      (std::optional<std::vector<double>>, count_noise, gradient_noise_multiplier),
      (std::optional<Texts>, trained_tensors), (std::optional<PassSize>, pass))
};

}  // namespace privgrad::core
