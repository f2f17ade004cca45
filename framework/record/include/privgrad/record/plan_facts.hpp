// What a plan says: the members of plan.json, schedules.json and clients.json.
#pragma once

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

/// Values at steps, which ascend.
struct ValuesOfSteps {
  PRIVGRAD_FACTS((std::vector<Count>, step), (std::vector<double>, value))
};

/// A schedule; each value is valid from its step until the next listed step. exact: whether the
/// steps of all changes are listed; if not, evenly spread steps are.
struct SlotFacts : ValuesOfSteps {
  PRIVGRAD_FACTS_BESIDE(ValuesOfSteps, (bool, exact))
};
using Slots = std::map<Text, SlotFacts>;

/// value: a bound on the expected excess risk after `step` steps, divided by the excess risk before
/// the first step. optimum: the loss from which the excess is measured.
struct PredictedExcess : ValuesOfSteps {
  PRIVGRAD_FACTS_BESIDE(ValuesOfSteps, (double, optimum))
};

/// schedules.json. schedules: the version of the file format, 1.
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

/// labels: the number of examples of each class; empty if they were not counted.
struct PlannedClient {
  PRIVGRAD_FACTS((Count, dataset_size, affordable_steps),
                 (std::optional<Nullable<double>>, epsilon),
                 (UnlessEmpty<std::vector<Count>>, labels))
};

/// A client of a run, as in clients.json. `steps` and `estimates` reveal participation, and are
/// absent if the run may not show it.
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

/// values: the influence of each step's noise. InfluenceFacts defines the other members.
struct PlannedInfluence {
  PRIVGRAD_FACTS((std::vector<double>, values), (std::optional<double>, weighted_noise, uniform),
                 (std::optional<Nullable<double>>, least, budget))
};

using TwoCounts = std::array<Count, 2>;

struct Quartiles {
  PRIVGRAD_FACTS((double, min, first_quartile, median, mean, third_quartile, max))
};

/// The cost of each example's own steps in the drawn order, as rho of zCDP. The run guarantees the
/// largest cost to every example. steps_of_an_example: the smallest and the largest number of
/// batches that contain an example.
struct RhoOfExamples {
  PRIVGRAD_FACTS((Quartiles, rho), (TwoCounts, steps_of_an_example),
                 (std::optional<Count>, min_separation))
};

struct MeasuredValues {
  PRIVGRAD_FACTS((std::vector<Count>, step), (std::vector<Nullable<double>>, value))
};

/// The measurement that adaptive noise follows, and its cost. `spent_epsilon` and `measurements`
/// are absent until the run has ended.
struct AdaptiveNoiseFacts {
  PRIVGRAD_FACTS((Text, measured), (Count, every), (Nullable<double>, unchanged_epsilon),
                 (std::optional<double>, loss_bound, check_noise_multiplier),
                 (std::optional<Nullable<double>>, checks_epsilon, spent_epsilon),
                 (std::optional<MeasuredValues>, measurements))
};

/// examples: the most in one pass; bytes: their approximate memory.
struct PassSize {
  PRIVGRAD_FACTS((Count, examples, bytes))
};

/// plan.json. Only the output of `privgrad plan --json` has trained_tensors and pass.
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
