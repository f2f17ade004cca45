// What a plan would cost if each example drew its step of an epoch by itself.
#pragma once

#include <cstdint>
#include <optional>

#include "privgrad/plan/plan.hpp"
#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// The cost of a plan's releases in epochs of random allocation.
struct AllocationPrice {
  std::uint64_t steps_per_epoch = 0;
  Adjacency adjacency = Adjacency::zero_out;
  double epsilon = 0.0;  ///< Upper bound, at the plan's delta.
};

/// What the plan would cost with the sampler `allocation`, with as many steps, epochs and noise, and
/// with what is charged beside the steps: by the accountant `pld`. Under `replace_one`, about whose
/// epochs nothing is proved, that of `zero_out` is given. Where epochs have more noises than eight,
/// it is that of eight, none of which is above an epoch's own.
/// \returns nothing but for samplers that go through the rows epoch by epoch or draw batches of a
///   fixed size, for steps that are accounted one by one with Gaussian noise, and where `pld` is
///   there and takes all of it.
std::optional<AllocationPrice> price_of_allocation(const Plan& plan);

}  // namespace privgrad::core
