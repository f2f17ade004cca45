// The section of a study's page on its factors: what each axis changes, and which of them interact.
#pragma once

#include <string>

#include "chart.hpp"
#include "study_record.hpp"

namespace privgrad::report {

/// \returns "" for a study of fewer than two factors, or without results.
std::string factors_section(const StudyRecord& study, Charts& charts);

}  // namespace privgrad::report
