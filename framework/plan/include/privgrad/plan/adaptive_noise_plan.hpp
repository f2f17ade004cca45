// The plan of a run whose noise depends on its releases, and whose guarantee is its budget.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/trust/ledger.hpp"

namespace privgrad::core {

struct Manifest;
struct PlanNumbers;
struct Setting;
struct StepPlan;

/// The facts that are known in advance about noise that adapts to releases.
///
/// The guarantee of such a run is its budget, privacy.target_epsilon. Its ledger is a privacy
/// filter: each release is charged before it is made, for the noise that was chosen for it, and a
/// release that does not fit ends the run. The ledger's total is not a guarantee, because it
/// depends on released values.
struct AdaptiveNoisePlan {
  Measurement measurement;
  PrivacyAnswer unchanged;  ///< Cost of affordable steps and checks if the noise never changes.
  PrivacyAnswer of_checks;  ///< Cost of the checks alone, which are the charged measurements.

  bool operator==(const AdaptiveNoisePlan&) const = default;

  bool is_charged() const { return measurement.what == Measured::loss_change; }
  /// The number of charged measurements before the last of `steps` steps.
  std::uint64_t checks_before(std::uint64_t steps) const {
    return is_charged() && steps > 0 ? (steps - 1) / measurement.every : 0;
  }
  /// The charges of the measurements before the last of `steps` steps.
  std::vector<Charge> check_charges(std::uint64_t steps) const;
  /// \param at  the number of steps before the measurement, > 0.
  Charge check_charge(std::uint64_t at) const;
};

/// The adaptive noise that a manifest requests; nothing if its noise is fixed in advance, or off.
/// \throws ManifestError, PrivacyError with the place, for anything that excludes adaptive noise;
///   PluginError for an invalid measurement, or initial noise that is not constant.
std::optional<AdaptiveNoisePlan> plan_adaptive_noise(const Manifest& manifest,
                                                     const Setting& setting, std::uint64_t steps);

/// Checks the steps: their clip norm must be fixed, and each must be charged in full, as a separate
/// release.
/// \throws ManifestError, PrivacyError with the place if not.
void check_adaptive_noise(const Manifest& manifest, const StepPlan& steps);

/// States the budget as the guarantee, because the final cost depends on the releases.
/// \param numbers  the numbers so far, for steps whose noise never changes.
/// \returns the same numbers, but with the budget as epsilon and an event that costs the budget.
PlanNumbers with_budget_as_guarantee(const Manifest& manifest, PlanNumbers numbers);

}  // namespace privgrad::core
