// Divides a run's budget among its steps by the steps' influence and the accountant's own costs.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "privgrad/plan/kept_numbers.hpp"
#include "privgrad/trust/ledger.hpp"

namespace privgrad::core {

/// Returns the charges of all steps with these noise multipliers.
using ChargesOfNoise = std::function<std::vector<Charge>(const std::vector<double>& noise)>;

/// Returns the epsilon that the guarding accountant proves for these charges of the steps and all
/// other charges.
using CostOfCharges = std::function<double(std::span<const Charge> charges)>;

/// Whether the cost of all steps depends only on the sum of 1/noise^2, for any accountant.
/// Each step must be a Gaussian release in which every unit takes part: k Gaussian releases of one
/// value are equivalent to one release with noise (sum of 1/noise^2)^(-1/2) (Dong, Roth and Su
/// 2022, Corollary 3.3). Lemma 4.3 of Hong, Wang and Zhou 2022 then gives the smallest sum of
/// influence times squared noise.
/// \param charges  one per step; the releases are independent.
/// \param noise  their noise multipliers.
bool costs_inverse_square(std::span<const Charge> charges, std::span<const double> noise);

/// Noise multipliers with a small sum of influence times squared noise at a given cost, if the cost
/// of a step is not proportional to 1/sigma^2 (a sampled step costs much more if sigma is below 1,
/// and less if sigma is large).
///
/// For several noise multipliers sigma, the accountant computes the marginal cost m(sigma): the
/// amount by which one more step with this noise raises the epsilon of a run with uniform noise
/// that meets the target. Other values of m are interpolated. Each step, with influence q, then
/// gets the sigma that minimises q sigma^2 + lambda m(sigma), with the lambda for which the
/// marginal costs have the same sum as with uniform noise. Steps that are paid for together (an
/// epoch, a cycle) get the same noise.
///
/// Premise: costs add up. This is true to first order around uniform noise, and for an accountant
/// of Renyi divergences at the order that is best for uniform noise. The result is therefore only a
/// proposal: the caller must calibrate its scale, and compare it with uniform noise.
/// \param influence  one > 0 for each step.
/// \param uniform    the uniform noise multiplier that meets the target.
/// \param kept  stores the marginal costs, whose last digits depend on the processor.
/// \returns noise multipliers up to a common scale; all `uniform` if the accountant's answers show
///   no marginal costs.
std::vector<double> noise_by_cost(std::span<const double> influence, double uniform,
                                  const ChargesOfNoise& charges_of, const CostOfCharges& cost_of,
                                  KeptNumbers& kept);

}  // namespace privgrad::core
