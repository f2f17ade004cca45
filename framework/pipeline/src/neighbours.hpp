#pragma once

#include <string>
#include <vector>

#include "privgrad/pipeline/plan.hpp"

namespace privgrad::core {

/// How the last row of a data set is changed.
enum class LastRow { as_it_is = 1, zeros, copy, huge, subnormal, removed };

std::string to_text(LastRow change);

/// \returns those that the falsifier tries under this adjacency, at least one.
std::vector<LastRow> neighbours_under(Adjacency adjacency);

/// The examples before any transform, changed.
/// \pre there are two rows at least.
Dataset with_last_row(const Dataset& data, LastRow change);

/// Both splits as a run of the plan has them, but for the change.
/// \throws as read_data()
RunData neighbouring_data(const Plan& plan, const RunData& raw, LastRow change);

/// As the source gives them.
RunData raw_data(const Plan& plan);

/// A plan of the same numbers whose data source gives these examples.
Plan plan_on(const Plan& plan, const RunData& raw, LastRow change);

}  // namespace privgrad::core
