// The sentences of a privacy statement about releases besides the steps: statistics and reports.
#pragma once

#include <string>

#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

/// Names the releases besides steps that epsilon covers: " and of 2 statistics of the rows". This
/// function and those below return parts of statement_prose(), or "".
std::string releases_beside_steps(const Statement& statement);
/// Describes the counts of rows, and the statistics from which transforms learnt. Ends with a
/// space.
std::string statistics_prose(const Statement& statement);
/// Describes the released accuracies on the training rows. Begins with a space.
std::string report_prose(const Statement& statement);

}  // namespace privgrad::core
