// The cost that a plan would have if each example drew its own step of each epoch.
#pragma once

#include <cstdint>
#include <optional>

#include "privgrad/plan/plan.hpp"
#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

/// The cost of the plan by the accountant `pld` if the sampler `allocation` replaced the plan's
/// sampler; steps, epochs, noise and other charges stay the same. Under `replace_one`, for which no
/// cost of epochs is proved, returns the cost under `zero_out`. If epochs have more than eight
/// different noise multipliers, each is rounded down to one of nine values.
/// \returns nothing unless the sampler goes through the rows epoch by epoch or draws batches of a
///   fixed size, the steps release independent Gaussians with noise fixed in advance, and `pld` is
///   available and accepts all events.
std::optional<AllocationPrice> price_of_allocation(const Plan& plan);

}  // namespace privgrad::core
