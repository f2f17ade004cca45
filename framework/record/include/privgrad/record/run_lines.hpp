// The lines of a run's metrics.jsonl and rounds.jsonl.
#pragma once

#include <tuple>

#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

/// Means over a split; null if the split is absent or its metrics may not be shown. gradient_norm:
/// of the mean training loss, if the manifest requests it; mean_gradient_norm:
/// mean_gradient_norm_along(), only at the end of a run.
struct Metrics {
  PRIVGRAD_FACTS((Nullable<double>, train_loss, train_accuracy, test_loss, test_accuracy),
                 (std::optional<double>, gradient_norm, mean_gradient_norm))
};

/// A line of metrics.jsonl; charged_epsilon, of a federated run, is the largest total of all
/// ledgers, and round the number of rounds so far.
struct MetricsLine : Metrics {
  PRIVGRAD_FACTS_BESIDE(Metrics, (std::optional<Count>, step, round), (Nullable<double>, epsilon),
                        (std::optional<double>, clip_norm, noise_multiplier, reported_accuracy),
                        (std::optional<Nullable<double>>, clipped_fraction, charged_epsilon),
                        (std::optional<Metrics>, ema))
};

/// The constants of the losses by which local iterations adapt; see FederatedProgress for the
/// names.
struct LossEstimates {
  PRIVGRAD_FACTS((Nullable<double>, lipschitz, smoothness, divergence, convexity, heterogeneity))

  static auto state(auto& self) {
    return std::tie(self.lipschitz.plain(), self.smoothness.plain(), self.divergence.plain(),
                    self.convexity.plain(), self.heterogeneity.plain());
  }
};

/// A line of rounds.jsonl. Rounds count from 1; local_iterations: of each client; steps: the most
/// that any client had made by then.
struct RoundLine {
  PRIVGRAD_FACTS((Count, round, local_iterations, steps), (Nullable<double>, charged_epsilon),
                 (std::optional<LossEstimates>, estimates))
};

/// What went wrong in a round, or in all rounds, and what was sent. refused: the number of clients
/// that came too early or too often; nothing without such limits.
struct RoundMishaps {
  PRIVGRAD_FACTS((Count, dropped, stragglers, bytes_down, bytes_up),
                 (std::optional<Count>, refused))
};

/// The members of a round's line that reveal who took part.
struct RoundParticipation : RoundMishaps {
  PRIVGRAD_FACTS_BESIDE(RoundMishaps, (Count, clients))
};

}  // namespace privgrad::core
