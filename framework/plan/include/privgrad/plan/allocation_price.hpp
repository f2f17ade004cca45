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
/// \returns nothing for federated runs and epochs of one step; if a release is not an independent
///   Gaussian with noise fixed in advance; if the sampler neither goes through the rows epoch by
///   epoch nor draws batches of a fixed size; or if `pld` is absent or proves no finite epsilon.
std::optional<AllocationPrice> price_of_allocation(const Plan& plan);

}  // namespace privgrad::core
