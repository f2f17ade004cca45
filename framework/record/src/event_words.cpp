#include "privgrad/record/event_words.hpp"

#include <variant>

#include "privgrad/record/short_numbers.hpp"

namespace privgrad::core {
namespace {

struct Describer {
  std::string operator()(const GaussianEvent& e) const {
    return "gaussian of noise multiplier " + short_number(e.noise_multiplier, 6);
  }
  std::string operator()(const LaplaceEvent& e) const {
    return "laplace of noise multiplier " + short_number(e.noise_multiplier, 6);
  }
  std::string operator()(const DiscreteGaussianEvent& e) const {
    return "discrete gaussian of sigma " + short_number(e.sigma, 6) + " and sensitivity " +
           std::to_string(e.sensitivity);
  }
  std::string operator()(const ZcdpEvent& e) const {
    return "zcdp of rho " + short_number(e.rho, 6);
  }
  std::string operator()(const PoissonSampledEvent& e) const {
    return "Poisson sampled at " + short_number(e.sampling_probability, 6) + " of " +
           describe(*e.of);
  }
  std::string operator()(const SampledWithoutReplacementEvent& e) const {
    return "sampled without replacement, " + std::to_string(e.sample_size) + " of " +
           std::to_string(e.source_dataset_size) + ", of " + describe(*e.of);
  }
  std::string operator()(const RandomAllocationEvent& e) const {
    return "random allocation to one of " + std::to_string(e.steps) + " steps of " +
           describe(*e.of);
  }
  std::string operator()(const RepeatAndSelectEvent& e) const {
    std::string law = e.is_poisson() ? "Poisson"
                      : e.shape == 1.0
                          ? "geometric"
                          : "truncated negative binomial of shape " + short_number(e.shape, 6);
    return "best of a random number of runs (" + law + ", mean " + short_number(e.mean, 6) +
           "), each " +
           (e.candidates.size() == 1
                ? describe(e.candidates.front())
                : "one of " + std::to_string(e.candidates.size()) + " candidates, from " +
                      describe(e.candidates.front()) + " to " + describe(e.candidates.back()));
  }
  std::string operator()(const ComposedEvent& e) const {
    if (e.of.empty()) return "nothing";
    std::string first = describe(e.of.front());
    if (e.of.size() == 1) return first;
    return std::to_string(e.of.size()) + " different releases, the first " + first + ", the last " +
           describe(e.of.back());
  }
  std::string operator()(const SelfComposedEvent& e) const {
    return std::to_string(e.count) + " x " + describe(*e.of);
  }
  std::string operator()(const NonPrivateEvent&) const { return "not private"; }
  std::string operator()(const UnsupportedEvent& e) const { return "unsupported: " + e.reason; }
};

}  // namespace

std::string describe(const Event& event) { return std::visit(Describer{}, event.kind()); }

}  // namespace privgrad::core
