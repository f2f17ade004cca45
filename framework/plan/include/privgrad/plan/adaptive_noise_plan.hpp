#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/adaptive_schedule.hpp"
#include "privgrad/trust/ledger.hpp"

namespace privgrad::core {

struct Manifest;
struct PlanNumbers;
struct Setting;
struct StepPlan;

/// Noise that adapts, as far as it is known beforehand.
///
/// The guarantee of such a run is its budget, privacy.target_epsilon. Its ledger is a privacy
/// filter: each release is paid for before it is made, by the noise that was chosen for it, and
/// what does not fit ends the run. What the ledger adds up to is no guarantee, since it depends on
/// what was released.
struct AdaptiveNoisePlan {
  Measurement measurement;
  PrivacyAnswer unchanged;  ///< What the affordable steps cost if the noise never changes.
  PrivacyAnswer of_checks;  ///< What the charged measurements that go with them cost alone.

  bool operator==(const AdaptiveNoisePlan&) const = default;

  bool is_charged() const { return measurement.what == Measured::loss_change; }
  /// Measurements that are charged before the last of so many steps is made.
  std::uint64_t checks_before(std::uint64_t steps) const {
    return is_charged() && steps > 0 ? (steps - 1) / measurement.every : 0;
  }
  /// The charges of these.
  std::vector<Charge> check_charges(std::uint64_t steps) const;
  /// \param at  how many steps have been made, > 0.
  Charge check_charge(std::uint64_t at) const;
};

/// The adaptive noise that a manifest asks for; nothing if its noise is fixed beforehand, or off.
/// \throws ManifestError, PrivacyError with the place, for what it does not fit together with.
std::optional<AdaptiveNoisePlan> plan_adaptive_noise(const Manifest& manifest,
                                                     const Setting& setting, std::uint64_t steps);

/// What can be seen only once the steps have their charges: that each is charged as a release of
/// its own.
/// \throws as plan_adaptive_noise().
void check_adaptive_noise(const Manifest& manifest, const StepPlan& steps);

/// The budget is what is known beforehand: what is spent in the end depends on what is released.
/// \param numbers  so far: what steps of unchanging noise cost.
/// \returns the same, with the budget for their epsilon and an event that costs as much.
PlanNumbers with_budget_as_guarantee(const Manifest& manifest, PlanNumbers numbers);

}  // namespace privgrad::core
