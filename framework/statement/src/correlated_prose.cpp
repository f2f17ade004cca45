#include "correlated_prose.hpp"

#include <nlohmann/json.hpp>

#include "privgrad/record/short_numbers.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

/// Describes how examples take part in releases with correlated noise, and what this costs.
std::string participation(const Json& correlated) {
  if (correlated.at("amplification") == "cycles") {
    return "An example takes part in one step of each cycle of " + correlated.at("cycle").dump() +
           " steps at most, by a coin that is secret; by then the releases are one Gaussian "
           "mechanism whose steps have, for an example, a noise multiplier of " +
           range_text(correlated.at("amplified_noise_multiplier")) +
           ", amplified by that coin: a cycle is charged for the least of them.";
  }
  const std::string one = "Together the releases are one Gaussian mechanism. It is charged for ";
  if (correlated.contains("min_separation")) {
    return one + "the most that it can cost a client that takes part in at most " +
           correlated.at("max_participations").dump() + " of the planned rounds, with at least " +
           correlated.at("min_separation").dump() +
           " others between any two of them, whichever they are: the server refused clients that "
           "came early, and the rounds of all were checked before their changes were added. No "
           "amplification by sampling is claimed.";
  }
  return one +
         "the example that it costs most in the very order that ran, in which an example takes "
         "part in " +
         range_text(correlated.at("planned_steps_of_an_example")) +
         " of the planned steps; no amplification by sampling is claimed, and the order need not "
         "be secret.";
}

}  // namespace

std::string range_text(const Json& range) {
  if (range.is_null()) return "none";
  return short_range(range.at("smallest").get<double>(), range.at("largest").get<double>(), 5);
}

std::string correlated_noise(const Json& mechanism) {
  const Json& correlated = mechanism.at("correlated");
  const std::string differences =
      correlated.at("gradient_differences").get<bool>()
          ? "; gradients are those at the first iterate of each epoch, and beside them are the "
            "differences of an example's clipped gradients to those at the current iterate and at "
            "the first iterate of the epoch before, each clipped to a bound of the plan"
          : "";
  const auto window = correlated.value("window", 0);  // missing in older statements
  const std::string how =
      window == 0 ? " made releases over many steps with correlated Gaussian noise: a release "
                    "continues earlier ones, data and noise alike, and what is new in it has noise"
                  : " released each step's sum with part of the Gaussian noise of up to " +
                        std::to_string(window) + " steps before it, taken back, and with noise";
  return differences + "; from their sums " + mechanism.at("aggregator").get<std::string>() + how +
         " of its own, with a noise multiplier (standard deviation over clip norm) of " +
         range_text(correlated.at("own_noise_multiplier")) +
         "; the divisor of the sums is a constant of the plan. " + participation(correlated) +
         " The accountant was charged for: " + mechanism.at("charged_as").get<std::string>() + ".";
}

std::string checked_draws(const Json& mechanism) {
  if (!mechanism.contains("correlated"))
    return "; the sampler that ran is the one that was accounted.";
  if (mechanism.at("correlated").contains("min_separation"))
    return "; each round's clients were checked against the rule that was accounted.";
  if (mechanism.at("correlated").at("amplification") == "cycles")
    return "; each batch was checked against the cycles that were accounted.";
  return "; each batch was checked against the order that was accounted.";
}

}  // namespace privgrad::core
