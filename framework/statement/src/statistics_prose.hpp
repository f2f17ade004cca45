// The sentences of a privacy statement about releases besides the steps: statistics and reports.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace privgrad::core {

/// " and of 2 statistics of the rows": the releases besides steps that epsilon covers. All
/// functions here return parts of statement_prose() about such releases; "" if there are none.
std::string releases_beside_steps(const nlohmann::json& statement);
/// The statistics from which transforms learnt, followed by a space.
std::string statistics_prose(const nlohmann::json& statement);
/// The report about the final model, preceded by a space.
std::string report_prose(const nlohmann::json& statement);

}  // namespace privgrad::core
