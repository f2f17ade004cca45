// The plan for one owner's data: a whole central run, one client, or the server of dp_fed_avg.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "privgrad/plan/plan.hpp"
#include "privgrad/trust/separation.hpp"

namespace privgrad::core {

/// The facts about one owner's data for its plan: the whole data set of a central run, the shard of
/// a client, or the clients of a server.
struct OwnerSetting {
  std::uint64_t dataset_size = 0;  ///< Public, > 0.
  std::uint64_t steps = 0;         ///< The most steps that are made; 0 if a theorem chooses them.
  /// Releases besides the steps, for which the budget must pay first.
  std::vector<Charge> beside{};
  /// Values that replace the manifest's schedules.
  std::optional<double> clip_norm{}, learning_rate{};
  /// PlanNumbers::is_accounted_in_full.
  bool is_accounted_in_full = false;
  /// The key for drawing a public order of examples; if absent: from Setting::plan_key.
  std::optional<RandomKey> key{};
  /// For a server: the rule that clients follow, whose worst case is charged.
  std::optional<Separation> separation{};
};

/// Plans an owner's steps in stages: step count, schedules, charges with the noise's scale, budget.
/// Does not list unaccounted uses of the data.
/// \throws as make_plan().
Plan plan_owner(const Manifest& manifest, std::shared_ptr<const Setting> setting,
                const OwnerSetting& owner);

}  // namespace privgrad::core
