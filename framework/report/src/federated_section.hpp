// The section of a run's page about the clients and rounds of a federated run.
#pragma once

#include <string>

#include "chart.hpp"
#include "record.hpp"

namespace privgrad::report {

/// The clients and rounds of a federated run; "" for a central run.
/// \throws IoError naming a malformed part.
std::string federated_section(const RunRecord& record, Charts& charts);

}  // namespace privgrad::report
