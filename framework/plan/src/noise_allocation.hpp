// Divides a run's budget among its steps by their influence and by what its own accountant charges.
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

/// What the guarding accountant proves for the charges, with those beside the steps.
using CostOfCharges = std::function<double(std::span<const Charge> charges)>;

/// Whether the steps together cost what their sum of 1/sigma^2 does, by any accountant: each is a
/// Gaussian release that every unit takes part in, and k Gaussian releases of one value are worth
/// one release of the noise (sum of 1/sigma^2)^(-1/2) (Dong, Roth and Su 2022, Corollary 3.3).
/// Lemma 4.3 of Hong, Wang and Zhou 2022 then gives the least sum of influence times squared noise.
/// \param charges  one per step, none correlated with another.
/// \param noise    the noise multipliers that they are of.
bool costs_inverse_square(std::span<const Charge> charges, std::span<const double> noise);

/// Noise multipliers with a small sum of influence times squared noise at a given cost, where a
/// step costs something else than 1/sigma^2 (a sampled step costs much more as sigma falls below
/// 1, and less as it grows).
///
/// The accountant is asked by how much each of some noise multipliers, beside a run of uniform noise
/// that meets the target, raises epsilon: its marginal cost m(sigma). Each step then gets the sigma
/// that minimises q_t sigma^2 + lambda m(sigma), found between the noise multipliers that were
/// asked about, with the one lambda at which the marginal costs add up to those of uniform noise.
/// Steps that are paid for together (an epoch, a cycle) get the same noise.
///
/// Premise: costs that add up, which is so to the first order around uniform noise. By an
/// accountant of Renyi divergences it is so at the order that is best for uniform noise. So the
/// result is a proposal: its scale is still open and has to be calibrated, and the caller has to
/// compare it with uniform noise.
/// \param influence  one > 0 for each step.
/// \param uniform    the uniform noise multiplier that meets the target.
/// \param kept       keeps the marginal costs, whose last digits depend on the processor.
/// \returns noise multipliers up to their scale; all `uniform` if the accountant gives no costs to
///   divide by.
std::vector<double> noise_by_cost(std::span<const double> influence, double uniform,
                                  const ChargesOfNoise& charges_of, const CostOfCharges& cost_of,
                                  KeptNumbers& kept);

}  // namespace privgrad::core
