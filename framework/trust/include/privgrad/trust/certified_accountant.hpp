#pragma once

#include <string>

#include "privgrad/accountant.hpp"
#include "privgrad/catalog.hpp"

namespace privgrad::core {

/// The accountant that certifies this one (ComponentInfo::certified_by), or nullptr.
/// \throws ConfigError if it names one that is not loaded.
const Component* certifier_of(const Component& accountant, const Catalog& catalog);

/// Makes an accountant for planning, guarding or showing: every accountant of the core comes from
/// here, so that no answer that needs a certificate is shown without one, and none that is below
/// what the events spend at least (least_cost.hpp): that is a PluginError. It is a
/// ComposesAdaptively if the accountant is one and has no certifier.
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

/// An accountant's reason for refusing an event, and which others of the catalog, with their default
/// parameters, do take it. They are asked, so that nobody is sent to one that refuses it too.
/// \param refusing  who gave the reason.
std::string with_alternatives(const std::string& reason, const Event& event, Adjacency adjacency,
                              const Catalog& catalog, const Component& refusing);

}  // namespace privgrad::core
