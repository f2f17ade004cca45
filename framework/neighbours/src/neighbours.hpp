#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "privgrad/plan/plan.hpp"
#include "privgrad/plan/read_data.hpp"

namespace privgrad::core {

/// How the last row of a data set is changed; of clients who are protected as a whole, all rows of the
/// last client.
enum class LastRow { as_it_is = 1, zeros, copy, huge, subnormal, removed };

/// \param unit  client: of the last client.
std::string to_text(LastRow change, PrivacyUnit unit = PrivacyUnit::example);

/// \returns those that the falsifier tries for this plan, at least one. A client is never removed: how
///   many there are stands in the manifest. Nor is the only row of one.
std::vector<LastRow> neighbours_of(const Plan& plan);

/// The rows that a change is about, ascending.
std::vector<std::uint32_t> changed_rows(const Plan& plan, const Dataset& train);

/// The examples before any transform, changed.
/// \pre there are two rows at least.
Dataset with_change(const Dataset& data, const std::vector<std::uint32_t>& rows, LastRow change);

/// Both splits as a run of the plan has them, but for the change.
/// \param teacher  of transforms that learn from released statistics; null: there are none.
/// \throws as read_data()
RunData neighbouring_data(const Plan& plan, const RunData& raw, LastRow change,
                          Teacher* teacher = nullptr);

/// As the source gives them.
RunData raw_data(const Plan& plan);

/// A plan of the same numbers whose data source gives these examples. Who has which of them stays as
/// it was drawn.
/// \param manifest  the plan's, or one that runs alike; outlives the plan.
Plan plan_on(const Plan& plan, const Manifest& manifest, const RunData& raw, LastRow change);

}  // namespace privgrad::core
