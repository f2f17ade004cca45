// Plans the values and charges of all steps, and the noise's scale if the manifest leaves it open.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "guard.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/plan/kept_numbers.hpp"
#include "privgrad/trust/separation.hpp"
#include "step_schedules.hpp"

namespace privgrad::core {

struct StepPlan {
  StepValues values;               ///< noise_multiplier: all zero without noise.
  std::vector<double> batch_size;  ///< The expected sizes, from the sampler.
  std::vector<Charge> charges;     ///< One per step; empty without noise.
  std::shared_ptr<const CorrelatedPlan> correlated;
  bool clip_norm_adapts = false;
  std::vector<double> optimized;  ///< The aggregator's optimised numbers (Aggregator::optimized()).
  double scale = 1.0;             ///< The scale found for the open schedule, if there is one.
  /// PlanNumbers::costs_inverse_square, uniform_noise.
  bool costs_inverse_square = false;
  std::optional<double> uniform_noise;

  bool has_order() const { return correlated && correlated->order; }
};

/// The facts and components that determine the charges of steps.
struct StepSetting {
  const Manifest& manifest;
  const RunFacts& facts;
  const std::vector<double>& learning_rate;
  const Components& made;  ///< Started for every trial, and last for the plan.
  const RandomKey& key;    ///< The key for drawing a public order of examples.
  KeptNumbers& kept;
  const std::optional<Separation>& separation;  ///< OwnerSetting::separation.
};

/// Plans the steps with the smallest scale of the open schedule, if there is one, at which the
/// guarding accountant proves the target for all steps.
/// \param target  the target for epsilon.
/// \param beside  the charges besides the steps, which the budget pays first.
/// \throws ManifestError, PrivacyError with the place, for parts that do not fit together and for
///   costs that are not proved.
StepPlan plan_noise(const StepSetting& setting, const StepSchedules& schedules,
                    std::optional<double> target, const BesideCharges& beside);

/// Plans the same steps without noise; nothing is charged for them.
StepPlan plan_without_noise(const StepSetting& setting, const StepSchedules& schedules);

}  // namespace privgrad::core
