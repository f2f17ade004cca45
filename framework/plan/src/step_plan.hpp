// The values and charges of all steps, with the noise's scale found where the plan leaves it open.
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

/// The values that steps are made with, and the charge of each.
struct StepPlan {
  StepValues values;               ///< noise_multiplier: all zero without noise.
  std::vector<double> batch_size;  ///< As the sampler expects it.
  std::vector<Charge> charges;     ///< One per step; none without noise.
  std::shared_ptr<const CorrelatedPlan> correlated;
  bool clip_norm_adapts = false;
  std::vector<double> optimized;  ///< What the aggregator optimised (Aggregator::optimized()).
  double scale = 1.0;             ///< The scale found for the open schedule, if there is one.
  /// PlanNumbers::costs_inverse_square, uniform_noise.
  bool costs_inverse_square = false;
  std::optional<double> uniform_noise;

  bool has_order() const { return correlated && correlated->order; }
};

/// The facts and components from which steps get their charges.
struct StepSetting {
  const Manifest& manifest;
  const RunFacts& facts;
  const std::vector<double>& learning_rate;
  const Components& made;  ///< Started again for every try; at the end as the plan has it.
  const RandomKey& key;    ///< A public order of examples is drawn with it.
  KeptNumbers& kept;
  const std::optional<Separation>& separation;  ///< OwnerSetting::separation.
};

/// Finds the scale of the open schedule, if there is one: the smallest at which the guarding
/// accountant proves the target for all steps.
/// \param target  for epsilon.
/// \param beside  paid for first.
/// \throws ManifestError, PrivacyError with the place, for parts that do not fit together and for
///   costs that are not proved.
StepPlan plan_noise(const StepSetting& setting, const StepSchedules& schedules,
                    std::optional<double> target, const BesideCharges& beside);

/// The same without noise: nothing is charged.
StepPlan plan_without_noise(const StepSetting& setting, const StepSchedules& schedules);

}  // namespace privgrad::core
