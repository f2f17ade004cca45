// Neighbouring data sets, changed in the last row or client, and plans that run on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "privgrad/plan/plan.hpp"
#include "privgrad/plan/read_data.hpp"

namespace privgrad::core {

/// A change of the last row of a data set or, if clients are protected as a whole, of all rows of
/// the last client.
enum class LastRow { as_it_is = 1, zeros, copy, huge, subnormal, removed, rare_token, no_token };

/// \param unit  if this is client, the change affects the last client.
std::string to_text(LastRow change, PrivacyUnit unit = PrivacyUnit::example);

/// \returns the changes that the neighbouring-run test tries for this plan, at least one. No change
///   removes a client's only row, or a client, because the manifest states the number of clients.
std::vector<LastRow> neighbours_of(const Plan& plan);

/// The rows that a change affects, ascending.
std::vector<std::uint32_t> changed_rows(const Plan& plan, const Dataset& train);

/// The examples before any transform, with the change applied.
/// \param vocabulary  the number of tokens, if the features are tokens.
/// \pre there are at least two rows.
Dataset with_change(const Dataset& data, const std::vector<std::uint32_t>& rows, LastRow change,
                    std::size_t vocabulary);

/// Both splits in the form that a run of the plan uses, with the change applied.
/// \param teacher  the teacher for transforms that learn from released statistics; null if there
///   are no such transforms.
/// \throws as read_data()
RunData neighbouring_data(const Plan& plan, const RunData& raw, LastRow change,
                          Teacher* teacher = nullptr);

/// The rows as the source returns them.
RunData raw_data(const ComponentUse& source, const Setting& setting);

/// A copy of a plan whose data source returns the examples of `raw` with the change applied. Its
/// numbers and its partition among clients stay as they are.
/// \param manifest  the plan's manifest, or an equivalent manifest; outlives the plan.
Plan plan_on(const Plan& plan, const Manifest& manifest, const RunData& raw, LastRow change);

}  // namespace privgrad::core
