// The section of a study's page on clients and rounds.
#pragma once

#include <string>
#include <vector>

#include "chart.hpp"
#include "study_arms.hpp"

namespace privgrad::report {

/// The section, for studies with federated arms; "" for others.
std::string federated_section(const std::vector<Arm>& arms, Charts& charts);

}  // namespace privgrad::report
