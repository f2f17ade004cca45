// The sentences of a privacy statement about releases besides the steps: statistics and reports.
#pragma once

#include <string>

#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

/// The releases besides steps that epsilon covers: " and of 2 statistics of the rows". All
/// functions here return parts of statement_prose() about such releases; "" if there are none.
std::string releases_beside_steps(const Statement& statement);
/// Describes the statistics from which transforms learnt; ends with a space.
std::string statistics_prose(const Statement& statement);
/// Describes the report about the final model; begins with a space.
std::string report_prose(const Statement& statement);

}  // namespace privgrad::core
