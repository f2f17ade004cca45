// Computes the momentum of the tree aggregators by the theorems of Tran and Cutkosky 2022.
#pragma once

#include <cmath>
#include <string>

#include "privgrad/error.hpp"
#include "privgrad/run_facts.hpp"
#include "privgrad/value.hpp"

/// The common part of Tran and Cutkosky's theorems (2022) about momentum, which assume one example
/// per step. Here a step uses a batch of B of the N examples: an epoch has n = N/B steps, and a
/// batch's mean has B times less noise than its sum. Balancing the errors then gives the printed
/// formulas with epsilon B in place of epsilon and n in place of N; B = 1 is the printed case
/// (docs/algorithms/momentum-aggregation.md).
namespace auto_momentum {

struct Facts {
  double epsilon, log_inverse_delta;
  double examples, batch, epoch_steps;  // N, B, n
  double parameters;                    // d
};

inline Facts facts_of(const std::string& what, const privgrad::RunFacts& facts) {
  if (!facts.target_epsilon) {
    throw privgrad::ConfigError(what +
                                " is auto, which follows from epsilon; give "
                                "privacy.target_epsilon, or a number");
  }
  if (!(facts.batch_size > 0.0)) {
    throw privgrad::ConfigError(what +
                                " is auto, which follows from the batch size; give the sampler's "
                                "batch_size instead of schedules.batch_size, or a number");
  }
  const auto examples = static_cast<double>(facts.dataset_size);
  return {.epsilon = *facts.target_epsilon,
          .log_inverse_delta = -std::log(facts.target_delta),
          .examples = examples,
          .batch = facts.batch_size,
          .epoch_steps = examples / facts.batch_size,
          .parameters = static_cast<double>(facts.parameters)};
}

/// \returns 1 - alpha.
/// \throws ConfigError unless the theorem's alpha is in (0, 1].
inline double momentum_of(double alpha, const std::string& aggregator, const std::string& theorem) {
  if (alpha > 0.0 && alpha <= 1.0) return 1.0 - alpha;
  throw privgrad::ConfigError(aggregator + ": momentum is auto, but " + theorem +
                              " asks for an alpha of at most 1 and gives " +
                              privgrad::format_number(alpha) +
                              "; take more steps, or give a number");
}

}  // namespace auto_momentum
