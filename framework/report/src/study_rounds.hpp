// The section of a study's page on clients and rounds.
#pragma once

#include <string>

#include "chart.hpp"
#include "study_record.hpp"

namespace privgrad::report {

/// The section, for studies with federated arms; "" for others.
std::string federated_section(const StudyRecord& study, Charts& charts);

}  // namespace privgrad::report
