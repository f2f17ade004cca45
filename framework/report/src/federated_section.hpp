// The section of a run's page about the clients and rounds of a federated run.
#pragma once

#include <string>

#include "chart.hpp"
#include "record.hpp"

namespace privgrad::report {

/// The clients and rounds of a federated run; "" for a central one.
/// \throws IoError naming any part that is not as runs write it.
std::string federated_section(const RunRecord& record, Charts& charts);

}  // namespace privgrad::report
