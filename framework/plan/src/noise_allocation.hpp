// Divides a run's budget among its steps by their influence and by its own accountant's charges.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "privgrad/plan/kept_numbers.hpp"
#include "privgrad/trust/ledger.hpp"

namespace privgrad::core {

/// The charges of all steps, made with these noise multipliers.
using ChargesOfNoise = std::function<std::vector<Charge>(const std::vector<double>& noise)>;

/// The guarding accountant's proof for these charges of the steps, and for all other charges.
using CostOfCharges = std::function<double(std::span<const Charge> charges)>;

/// Whether the steps together cost as much as their sum of 1/sigma^2, by any accountant: each must
/// be a Gaussian release in which every unit takes part, because k Gaussian releases of one value
/// are equivalent to one release with noise (sum of 1/sigma^2)^(-1/2) (Dong, Roth and Su 2022,
/// Corollary 3.3). Lemma 4.3 of Hong, Wang and Zhou 2022 then gives the smallest sum of influence
/// times squared noise.
/// \param charges  one per step, none correlated with another.
/// \param noise  their noise multipliers.
bool costs_inverse_square(std::span<const Charge> charges, std::span<const double> noise);

/// Noise multipliers with a small sum of influence times squared noise at a given cost, if the cost
/// of a step is not 1/sigma^2 (a sampled step costs much more as sigma falls below 1, and less as
/// it grows).
///
/// The accountant computes, for each of some noise multipliers, by how much an additional step
/// raises the epsilon of a run with uniform noise that meets the target: its marginal cost
/// m(sigma). Each step then gets the sigma that minimises q_t sigma^2 + lambda m(sigma),
/// interpolated between these noise multipliers, with the lambda at which the marginal costs add up
/// to those of uniform noise. Steps that are paid for together (an epoch, a cycle) get the same
/// noise.
///
/// Premise: costs add up, which is true to first order around uniform noise, and for an accountant
/// of Renyi divergences at the order that is best for uniform noise. So the result is a proposal:
/// its scale is still open and must be calibrated, and the caller must compare it with uniform
/// noise.
/// \param influence  one > 0 for each step.
/// \param uniform    the uniform noise multiplier that meets the target.
/// \param kept  stores the marginal costs, whose last digits depend on the processor.
/// \returns noise multipliers up to their scale; all `uniform` if the accountant gives no costs to
///   divide by.
std::vector<double> noise_by_cost(std::span<const double> influence, double uniform,
                                  const ChargesOfNoise& charges_of, const CostOfCharges& cost_of,
                                  KeptNumbers& kept);

}  // namespace privgrad::core
