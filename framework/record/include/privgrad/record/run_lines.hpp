// The lines of a run's metrics.jsonl and rounds.jsonl.
#pragma once

#include <tuple>

#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

/// Means over the training or test rows; null if there are no such rows, or if they may not be
/// shown. gradient_norm: the norm of the mean training loss's gradient, if the manifest requests
/// it; mean_gradient_norm: mean_gradient_norm_along(), only at the end of a run.
struct Metrics {
  PRIVGRAD_FACTS((Nullable<double>, train_loss, train_accuracy, test_loss, test_accuracy),
                 (std::optional<double>, gradient_norm, mean_gradient_norm))
};

/// A line of metrics.jsonl. Only federated runs have `charged_epsilon`, the largest total of all
/// ledgers, and `round`, the number of rounds so far.
struct MetricsLine : Metrics {
  PRIVGRAD_FACTS_BESIDE(Metrics, (std::optional<Count>, step, round), (Nullable<double>, epsilon),
                        (std::optional<double>, clip_norm, noise_multiplier, reported_accuracy),
                        (std::optional<Nullable<double>>, clipped_fraction, charged_epsilon),
                        (std::optional<Metrics>, ema))
};

/// Estimates from which the number of local iterations is chosen; FederatedProgress defines them.
struct LossEstimates {
  PRIVGRAD_FACTS((Nullable<double>, lipschitz, smoothness, divergence, convexity, heterogeneity))

  static auto state(auto& self) {
    return std::tie(self.lipschitz.plain(), self.smoothness.plain(), self.divergence.plain(),
                    self.convexity.plain(), self.heterogeneity.plain());
  }
};

/// A line of rounds.jsonl. round: counted from 1; local_iterations: the number of local steps that
/// each client makes in this round; steps: the most steps that any client has made so far, or for
/// dp_fed_avg the number of rounds.
struct RoundLine {
  PRIVGRAD_FACTS((Count, round, local_iterations, steps), (Nullable<double>, charged_epsilon),
                 (std::optional<LossEstimates>, estimates))
};

/// Problems and traffic of one round, or of all rounds so far. refused: the number of clients that
/// came too early or too often; absent without federated.min_separation.
struct RoundMishaps {
  PRIVGRAD_FACTS((Count, dropped, stragglers, bytes_down, bytes_up),
                 (std::optional<Count>, refused))
};

/// The members of a line of rounds.jsonl that reveal who took part.
struct RoundParticipation : RoundMishaps {
  PRIVGRAD_FACTS_BESIDE(RoundMishaps, (Count, clients))
};

}  // namespace privgrad::core
