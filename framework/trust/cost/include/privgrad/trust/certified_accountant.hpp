// Creates accountants whose answers are checked, and certified where their declaration asks for it.
#pragma once

#include <string>

#include "privgrad/accountant.hpp"
#include "privgrad/catalog.hpp"

namespace privgrad::core {

/// The accountant that certifies this one (ComponentInfo::certified_by), or nullptr.
/// \throws ConfigError if it names one that is not loaded.
const Component* certifier_of(const Component& accountant, const Catalog& catalog);

/// Makes an accountant for showing: no answer is below what the events spend at least
/// (least_cost.hpp), which is a PluginError, and none that needs a certificate comes without one. It
/// is a filter if the accountant is one and has no certifier.
///
/// With a certifier both compose the same events, each answer costs what both cost, and
/// - the accountant says that its answer is exact, and the two intervals have points in common: its
///   answer, in this common part. It stays what the accountant says, `exact`; the lower bound and the
///   note have what is proved;
/// - it says that its answer is an upper bound: the bound that the certifier proves;
/// - the intervals have nothing in common: the certifier's answer, and the note says what the
///   accountant had claimed;
/// - the accountant has an estimate only, or the certifier fails: an `estimate`.
/// Events that one of the two refuses are refused.
///
/// \param certifier  from certifier_of(), made with its default parameters; nullptr: the
///   accountant's own answers.
ComponentPtr<Accountant> make_accountant(const Component& accountant, const Params& params,
                                         const Component* certifier);

/// Makes an accountant for guarding a budget, whose answers are proofs: the same, or, with a
/// certifier, that one, of the events that both take. How far an accountant that needs a
/// certificate is from the truth is its own estimate, and is no part of what is guaranteed.
ComponentPtr<Accountant> make_guard(const Component& accountant, const Params& params,
                                    const Component* certifier);

/// An accountant's reason for refusing an event, and which others of the catalog, with their default
/// parameters, do take it. They are asked, so that nobody is sent to one that refuses it too.
/// \param refusing  the accountant that gave the reason.
std::string with_alternatives(const std::string& reason, const Event& event, Adjacency adjacency,
                              const Catalog& catalog, const Component& refusing);

}  // namespace privgrad::core
