// Common parts of the rules for samplers: plans, batches, and the meaning of charges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checker.hpp"
#include "privgrad/sampler.hpp"
#include "rules.hpp"
#include "sampler_epochs.hpp"

namespace privgrad::testing {

/// The noise multiplier of the releases for which samplers charge.
inline constexpr double kSampledNoise = 1.5;
/// The seed of the streams from which batches are drawn.
inline constexpr std::uint64_t kSeed = 20;

std::string text_of(const SamplingPlan& plan);

/// Whether start() accepts the plan; any error other than a refusal breaks the rule.
bool starts(Sampler& sampler, const SamplingPlan& plan);
ComponentPtr<Sampler> started(const Checker& checker, const SamplingPlan& plan);

/// Breaks the rule for rows that do not exist or are chosen twice.
void require_rows(const Batch& batch, std::size_t rows, const std::string& where);

/// \returns the charges; nothing if the sampler refuses for lack of a proof, which is allowed.
std::optional<std::vector<Event>> charges(const Sampler& sampler, const SamplingPlan& plan,
                                          std::size_t count);

/// Returns the length of a cycle, for which one event "poisson_sampled" pays, that is, the number
/// of steps in which an example may be drawn once.
std::uint64_t cycle_of(const std::vector<Event>& paid);

/// Whether all steps, or all cycles, have the same charge.
bool is_steady(const std::vector<Event>& paid);

/// Calls a function for each adjacency under which all steps, cycles or epochs claim the same
/// amplification.
/// \param plan  used with each adjacency in turn.
/// \throws NotChecked if there is no such adjacency.
void for_each_amplified(const Checker& checker, SamplingPlan plan,
                        const std::function<void(const SamplingPlan& plan, const Sampling& how,
                                                 const std::vector<Event>& paid)>& look);

}  // namespace privgrad::testing
