// The accountant that guards a plan's budget: its answers, calibration, and checks of charges.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/trust/ledger.hpp"

namespace privgrad::core {

/// The charges that a run of this many steps pays besides its steps; the budget pays them first.
using BesideCharges = std::function<std::vector<Charge>(std::uint64_t steps)>;

/// The sampler's charges for these releases, one for each.
/// \param what  the charges' name; "" for steps.
/// \throws PluginError if the sampler returns a wrong number of charges, charges nothing for the
///   first release, or charges a cycle or an epoch that does not cover its steps; PrivacyError for
///   cycles under add_or_remove_one, and for an epoch charged as part of a larger event.
std::vector<Charge> sampled_charges(const Manifest& manifest, const Sampler& sampler,
                                    std::span<const Event> releases, const std::string& what = {});

/// An accountant's answer about the charges, composed one by one in this order. The ledger makes
/// the same additions, so a run cannot differ from its plan by a rounding error.
/// \throws PrivacyError if the accountant refuses one of the charges.
PrivacyAnswer answer_of(const ComponentUse& accountant, const Manifest& manifest,
                        std::span<const Charge> beside, std::span<const Charge> charges);

/// The proved answer about the charges from the manifest's accountant, which guards the budget, or
/// from its certifier, if it has one.
/// \throws PrivacyError if the accountant refuses a charge, or if its answer is an estimate.
PrivacyAnswer guard_answer(const Manifest& manifest, std::span<const Charge> beside,
                           std::span<const Charge> charges);
PrivacyAnswer guard_answer(const Manifest& manifest, const std::vector<Charge>& charges);

/// The charges of steps whose noise, or any other open quantity of the plan, is scaled by `scale`.
using ChargesAtScale = std::function<std::vector<Charge>(double scale)>;

/// The smallest scale at which the guard proves that the charges cost at most the target
/// (smallest_scale()). If the manifest's own accountant only estimates, its estimates give a first
/// scale, which is then raised until its certifier's proof meets the target.
///
/// The search stays below the target by a relative 1e-10, so that reusing the scale on another
/// processor does not exceed the budget through rounding errors: the accountants' answers differ by
/// 1e-13 between processors that multiply and add in one instruction and other processors.
/// \param noise  the largest noise multiplier at a scale of 1; 0 if the scale does not apply to
///   noise.
/// \throws PrivacyError as guard_answer(); also if no scale meets the target or, for noise, if
///   every scale does.
double calibrated_scale(const Manifest& manifest, const ChargesAtScale& charges_at, double target,
                        std::span<const Charge> beside = {}, double noise = 1.0);

/// Checks the sampler's charges against a lower bound on each step's cost. However a sampler draws
/// batches of these expected sizes, some example is in the batch of step t with probability at
/// least the mean over examples, batch_size[t] / dataset_size. If all other examples contribute
/// zeros, step t's release has the distribution of a Poisson-sampled release.
/// \param epsilon  the stated cost of the paid steps.
/// \throws PluginError if a single step costs more than `epsilon`, which means that the sampler's
///   charges are too small.
void check_sampler_charges(const Manifest& manifest, std::uint64_t dataset_size,
                           std::span<const double> batch_size, std::span<const Charge> paid,
                           const PrivacyAnswer& epsilon);

}  // namespace privgrad::core
