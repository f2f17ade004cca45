#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/pipeline/plan.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// What is planned for the data of one owner: the whole data set of a central run, the shard of a
/// client.
struct OwnerSetting {
  std::uint64_t dataset_size = 0;  ///< Public, > 0.
  std::uint64_t steps = 0;         ///< The most that are made, > 0.
  /// Releases beside the steps, that the budget has to pay for first.
  std::vector<Charge> beside{};
  /// Instead of what the manifest's schedules say.
  std::optional<double> clip_norm{}, learning_rate{};
  /// Plan::is_accounted_in_full.
  bool is_accounted_in_full = false;
  /// Instead of the run's: what a public order of examples is drawn with.
  std::optional<RandomKey> key{};
};

/// The data, the transforms and the model of a manifest; nothing about steps yet.
Plan plan_setting(const Manifest& manifest);

/// Sampler, noise and cost of an owner's steps, for the network of `setting`, without data, model
/// and what is unaccounted.
/// \throws as make_plan().
Plan plan_owner(const Manifest& manifest, const Plan& setting, const OwnerSetting& owner);

/// The same plan with components of its own.
/// \param plan  that plan_owner() made, without correlated releases.
Plan twin_of(const Plan& plan);

/// Lists what no accountant is charged for.
/// \throws PrivacyError for it in release mode.
void list_unaccounted(Plan& plan, std::vector<Unaccounted> more = {});

/// One hyper-parameter over time, as the manifest's schedule gives it.
struct ScheduleValues {
  std::vector<double> at;
  bool is_shape = false;
  std::vector<double> influence{};  ///< Of FromInfluence, else empty.
  bool is_unaccounted = false;      ///< Of FromInfluence.
};

/// \throws ManifestError for values that are not finite, negative, or 0 where that is not allowed.
ScheduleValues schedule_values(const ComponentUse& use, const std::string& slot,
                               std::uint64_t steps, bool above_zero);

/// What the manifest's sampler charges for these releases, one charge for each.
/// \param what  the charges' name; "" for steps.
/// \throws PluginError if it gives another number of them.
std::vector<Charge> sampled_charges(const Manifest& manifest, const Sampler& sampler,
                                    std::span<const Event> releases, const std::string& what = {});

/// What an accountant proves of the charges, in their order.
/// \throws PrivacyError if it refuses one, or if its answer is an estimate.
PrivacyAnswer guard_answer(const Manifest& manifest, const std::vector<Charge>& charges);

}  // namespace privgrad::core
