// Creates accountants whose answers are checked, and certified if their declaration asks for it.
#pragma once

#include <string>

#include "privgrad/accountant.hpp"
#include "privgrad/catalog.hpp"

namespace privgrad::core {

/// Returns the accountant that certifies `accountant` (ComponentInfo::certified_by), or nullptr.
/// \throws ConfigError if the declaration names an accountant that is not loaded.
const Component* certifier_of(const Component& accountant, const Catalog& catalog);

/// Makes an accountant whose answers are shown to users. An answer below a proved lower bound on
/// the events' cost (least_cost.hpp) raises a PluginError, unless it is an estimate. The result is
/// a filter if the accountant is one and has no certifier.
///
/// With a certifier, both accountants compose the same events, so each answer takes the time of
/// both. The answer is chosen as follows:
/// - if the accountant claims an exact answer, and the two intervals overlap: its answer,
///   restricted to the overlap. It is still called `exact`, as the accountant claims; its lower
///   bound and its note state the proven interval;
/// - if it claims an upper bound: the bound that the certifier proves;
/// - if the intervals do not overlap, or the certifier proves no finite bound: the certifier's
///   answer, and the note gives the accountant's claim;
/// - if the accountant has only an estimate, or the certifier fails: an `estimate`.
/// Events that either of them refuses are refused.
///
/// \param certifier  the certifier from certifier_of(), made with its default parameters; nullptr:
///   the accountant's own answers.
ComponentPtr<Accountant> make_accountant(const Component& accountant, const Params& params,
                                         const Component* certifier);

/// Makes an accountant that guards a budget: the accountant itself or, if it has a certifier, the
/// certifier, for the events that both accept. An accountant that needs a certificate only
/// estimates its own error, so no guarantee rests on its answers.
ComponentPtr<Accountant> make_guard(const Component& accountant, const Params& params,
                                    const Component* certifier);

/// Returns an accountant's reason for refusing an event, followed by the other accountants of the
/// catalog that accept the event with their default parameters. Asks each of them.
/// \param refusing  the accountant that gave the reason.
std::string with_alternatives(const std::string& reason, const Event& event, Adjacency adjacency,
                              const Catalog& catalog, const Component& refusing);

}  // namespace privgrad::core
