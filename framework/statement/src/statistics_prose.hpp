#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace privgrad::core {

/// Parts of statement_prose() about what is released beside steps; "" where there is nothing.
/// " and of 2 statistics of the rows": what the claim is of, beside steps.
std::string releases_beside_steps(const nlohmann::json& statement);
/// What transforms learnt from, with a space behind it.
std::string statistics_prose(const nlohmann::json& statement);
/// What is reported of the final model, with a space before it.
std::string report_prose(const nlohmann::json& statement);

}  // namespace privgrad::core
