#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// What is planned for the data of one owner: the whole data set of a central run, the shard of a
/// client.
struct OwnerSetting {
  std::uint64_t dataset_size = 0;  ///< Public, > 0.
  std::uint64_t steps = 0;         ///< The most that are made; 0: a theorem chooses them.
  /// Releases beside the steps, that the budget has to pay for first.
  std::vector<Charge> beside{};
  /// Instead of what the manifest's schedules say.
  std::optional<double> clip_norm{}, learning_rate{};
  /// PlanNumbers::is_accounted_in_full.
  bool is_accounted_in_full = false;
  /// Instead of the run's: what a public order of examples is drawn with.
  std::optional<RandomKey> key{};
};

/// The plan of an owner's steps, in stages: step count, schedules, charges with the noise's scale,
/// budget. What nobody is charged for is not listed yet.
/// \throws as make_plan().
Plan plan_owner(const Manifest& manifest, std::shared_ptr<const Setting> setting,
                const OwnerSetting& owner);

}  // namespace privgrad::core
