#include "privgrad/record/event_dp_accounting.hpp"

#include "privgrad/error.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

/// Returns a Python literal that reads back as the same double.
std::string number(double value) { return format_number(value); }

struct Writer {
  std::string operator()(const GaussianEvent& e) const {
    return "dp.GaussianDpEvent(" + number(e.noise_multiplier) + ")";
  }
  std::string operator()(const LaplaceEvent& e) const {
    return "dp.LaplaceDpEvent(" + number(e.noise_multiplier) + ")";
  }
  std::string operator()(const DiscreteGaussianEvent& e) const {
    // dp_accounting 0.6.0 has a privacy loss distribution for this noise, but no event.
    throw ConfigError(
        "discrete_gaussian: dp_accounting has no event for it as of release 0.6.0; what is proved "
        "of it there is dp.ZCDpEvent(sensitivity^2 / (2 sigma^2)), here dp.ZCDpEvent(" +
        number(0.5 * static_cast<double>(e.sensitivity) * static_cast<double>(e.sensitivity) /
               e.sigma / e.sigma) +
        ")");
  }
  std::string operator()(const ZcdpEvent& e) const { return "dp.ZCDpEvent(" + number(e.rho) + ")"; }
  std::string operator()(const PoissonSampledEvent& e) const {
    return "dp.PoissonSampledDpEvent(" + number(e.sampling_probability) + ", " +
           to_dp_accounting(*e.of) + ")";
  }
  std::string operator()(const SampledWithoutReplacementEvent& e) const {
    return "dp.SampledWithoutReplacementDpEvent(" + std::to_string(e.source_dataset_size) + ", " +
           std::to_string(e.sample_size) + ", " + to_dp_accounting(*e.of) + ")";
  }
  std::string operator()(const RandomAllocationEvent&) const {
    throw ConfigError(
        "random_allocation: release 0.6.0 of dp_accounting has no event for it, and what a later "
        "one "
        "calls so has not been compared with this one; what that release can account for is "
        "poisson_sampled with sampling probability 1 / steps, which is another mechanism");
  }
  template <class Kind>
  std::string operator()(const Kind&) const {
    throw ConfigError(std::string(Kind::kKind) +
                      ": dp_accounting has no event for it as of release 0.6.0");
  }
  std::string operator()(const RepeatAndSelectEvent& e) const {
    if (e.candidates.size() > 1) {
      throw ConfigError(
          "repeat_and_select: dp_accounting has an event for runs of one candidate, as of release "
          "0.6.0, and here each is one of " +
          std::to_string(e.candidates.size()));
    }
    return "dp.RepeatAndSelectDpEvent(" + to_dp_accounting(e.candidates.front()) + ", " +
           number(e.mean) + ", " + (e.is_poisson() ? "float('inf')" : number(e.shape)) + ")";
  }
  std::string operator()(const ComposedEvent& e) const {
    std::string parts;
    for (const Event& part : e.of) parts += (parts.empty() ? "" : ", ") + to_dp_accounting(part);
    return "dp.ComposedDpEvent([" + parts + "])";
  }
  std::string operator()(const SelfComposedEvent& e) const {
    return "dp.SelfComposedDpEvent(" + to_dp_accounting(*e.of) + ", " + std::to_string(e.count) +
           ")";
  }
  std::string operator()(const NonPrivateEvent&) const { return "dp.NonPrivateDpEvent()"; }
  std::string operator()(const UnsupportedEvent&) const { return "dp.UnsupportedDpEvent()"; }
};

}  // namespace

std::string to_dp_accounting(const Event& event) { return std::visit(Writer{}, event.kind()); }

}  // namespace privgrad::core
