#include "correlated_prose.hpp"

#include "privgrad/record/short_numbers.hpp"

namespace privgrad::core {
namespace {

/// Describes how examples take part in releases with correlated noise, and what this costs.
std::string participation(const CorrelatedNoise& correlated) {
  if (correlated.amplification == "cycles") {
    return "An example takes part in one step of each cycle of " +
           std::to_string(correlated.cycle.value_or(0)) +
           " steps at most, by a coin that is secret; by then the releases are one Gaussian "
           "mechanism whose steps have, for an example, a noise multiplier of " +
           range_text(correlated.amplified_noise_multiplier) +
           ", amplified by that coin: a cycle is charged for the least of them.";
  }
  const std::string one = "Together the releases are one Gaussian mechanism. It is charged for ";
  if (correlated.min_separation) {
    return one + "the most that it can cost a client that takes part in at most " +
           std::to_string(correlated.max_participations.value_or(0)) +
           " of the planned rounds, with at least " + std::to_string(*correlated.min_separation) +
           " others between any two of them, whichever they are: the server refused clients that "
           "came early, and the rounds of all were checked before their changes were added. No "
           "amplification by sampling is claimed.";
  }
  return one +
         "the example that it costs most in the very order that ran, in which an example takes "
         "part in " +
         range_text(correlated.planned_steps_of_an_example) +
         " of the planned steps; no amplification by sampling is claimed, and the order need not "
         "be secret.";
}

}  // namespace

std::string correlated_noise(const MechanismFacts& mechanism) {
  const CorrelatedNoise& correlated = *mechanism.correlated;
  const std::string differences =
      correlated.gradient_differences
          ? "; gradients are those at the first iterate of each epoch, and beside them are the "
            "differences of an example's clipped gradients to those at the current iterate and at "
            "the first iterate of the epoch before, each clipped to a bound of the plan"
          : "";
  const std::string how =
      correlated.window == 0
          ? " made releases over many steps with correlated Gaussian noise: a release "
            "continues earlier ones, data and noise alike, and what is new in it has noise"
          : " released each step's sum with part of the Gaussian noise of up to " +
                std::to_string(correlated.window) + " steps before it, taken back, and with noise";
  return differences + "; from their sums " + mechanism.aggregator + how +
         " of its own, with a noise multiplier (standard deviation over clip norm) of " +
         range_text(correlated.own_noise_multiplier) +
         "; the divisor of the sums is a constant of the plan. " + participation(correlated) +
         " The accountant was charged for: " + mechanism.charged_as + ".";
}

std::string checked_draws(const MechanismFacts& mechanism) {
  if (!mechanism.correlated) return "; the sampler that ran is the one that was accounted.";
  if (mechanism.correlated->min_separation)
    return "; each round's clients were checked against the rule that was accounted.";
  if (mechanism.correlated->amplification == "cycles")
    return "; each batch was checked against the cycles that were accounted.";
  return "; each batch was checked against the order that was accounted.";
}

}  // namespace privgrad::core
