// The section of a study's page on clients and rounds.
#pragma once

#include <string>

#include "chart.hpp"
#include "study_record.hpp"

namespace privgrad::report {

/// \returns "" for a study without federated arms.
std::string federated_section(const StudyRecord& study, Charts& charts);

}  // namespace privgrad::report
