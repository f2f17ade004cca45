// What a finished run says: the members of summary.json.
#pragma once

#include <nlohmann/json.hpp>

#include "privgrad/record/plan_facts.hpp"
#include "privgrad/record/run_lines.hpp"

namespace privgrad::core {

/// The members that follow from the plan and the run's outcome. accounted_event:
/// Outcome::accounted_event(), or null.
struct OutcomeFacts {
  PRIVGRAD_FACTS((Text, status, name, bound, note, accountant, adjacency, unit, sampler, clipping,
                  aggregator, mode, privgrad),
                 (Count, steps, planned_steps, parameters), (Nullable<double>, epsilon),
                 (double, delta), (nlohmann::json, floating_point, accounted_event, statement),
                 (Texts, unaccounted), (bool, reproducible), (UnlessEmpty<Text>, date))
};

/// RunChecks. reported_differences: private, and therefore absent in release mode.
struct ChecksFacts {
  PRIVGRAD_FACTS((Count, contributions, batches), (std::optional<Count>, reported_differences),
                 (UnlessEmpty<Text>, noise_by))
};

/// A released number of rows; or one number for each class, and the class weights that follow.
struct ReleasedCount {
  PRIVGRAD_FACTS((double, noise_stddev), (Nullable<double>, share),
                 (std::optional<ReleasedValue>, value), (UnlessEmpty<std::vector<double>>, weights))
};

/// A released statistic from which a transform learnt. transform: the transform's number in the
/// manifest.
struct LearntStatistic {
  PRIVGRAD_FACTS((Count, transform), (std::vector<float>, value), (double, noise_stddev))
};

/// The released accuracy of the final model. between: the accuracies of earlier models, by step.
struct AccuracySummary : ReportFacts {
  PRIVGRAD_FACTS_BESIDE(ReportFacts, (std::optional<ValuesOfSteps>, between),
                        (std::optional<double>, value, noise_stddev))
};

/// Everything about the rows that was released beside the model.
struct ReportedFacts {
  PRIVGRAD_FACTS((std::optional<ReleasedCount>, rows, class_counts),
                 (UnlessEmpty<std::vector<LearntStatistic>>, statistics),
                 (std::optional<AccuracySummary>, train_accuracy))
};

/// dropped, stragglers, bytes_down, bytes_up and refused reveal participation, and are absent if
/// the run may not show it; refused also without federated.min_separation.
struct FederatedSummary {
  PRIVGRAD_FACTS((Count, clients, rounds, planned_rounds, most_local_iterations),
                 (Text, aggregation, partition), (Nullable<double>, charged_epsilon),
                 (std::optional<nlohmann::json>, remote),
                 (std::optional<Count>, dropped, stragglers, bytes_down, bytes_up, refused))
};

/// summary.json. output: which model was kept; seconds: null in release mode.
struct Summary : OutcomeFacts {
  PRIVGRAD_FACTS_BESIDE(OutcomeFacts, (Text, output, run_dir), (UnlessEmpty<Text>, no_checkpoints),
                        (Metrics, metrics), (Count, threads, processes),
                        (Nullable<double>, seconds), (double, clip_norm),
                        (std::optional<ChecksFacts>, checks),
                        (std::optional<ReportedFacts>, reported),
                        (std::optional<double>, ema_decay, epsilon_spent),
                        (std::optional<AdaptiveNoiseFacts>, adaptive_noise),
                        (std::optional<FederatedSummary>, federated),
                        (nlohmann::json, test_evaluation))
};

}  // namespace privgrad::core
