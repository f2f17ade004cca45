#pragma once

#include "privgrad/accountant.hpp"
#include "privgrad/catalog.hpp"

namespace privgrad::core {

/// The accountant that certifies this one (ComponentInfo::certified_by), or nullptr.
/// \throws ConfigError if it names one that is not loaded.
const Component* certifier_of(const Component& accountant, const Catalog& catalog);

/// Makes an accountant for planning, guarding or showing: every accountant of the core comes from
/// here, so that no answer that needs a certificate is shown without one.
///
/// With a certifier both compose the same events, each answer costs what both cost, and
/// - the two intervals have points in common: these are the answer. It is `exact` if the accountant
///   says so, because the proven interval holds the true value too;
/// - they have none: the certifier's answer, and the note says what the accountant had claimed;
/// - the accountant has an estimate only, or the certifier fails: an `estimate`, which guards
///   nothing.
/// Events that one of the two refuses are refused.
///
/// \param certifier  as certifier_of() gives it, made with its default parameters.
ComponentPtr<Accountant> make_accountant(const Component& accountant, const Params& params,
                                         const Component* certifier);

}  // namespace privgrad::core
