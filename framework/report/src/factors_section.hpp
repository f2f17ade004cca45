// The section of a study's page on its factors: the effect of each axis, and the interactions of
// pairs.
#pragma once

#include <string>

#include "chart.hpp"
#include "study_record.hpp"

namespace privgrad::report {

/// \returns "" for a study with fewer than two factors, or without results.
std::string factors_section(const StudyRecord& study, Charts& charts);

}  // namespace privgrad::report
