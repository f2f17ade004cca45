// The values of one metric of an arm's runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "privgrad/studies/study_directory.hpp"

namespace privgrad::core {

/// One metric of one arm, a value per seed; nothing if a run has diverged or has no finite value,
/// because the remaining runs would not represent the arm.
std::optional<std::vector<double>> values_of(const std::vector<RunRecord>& runs,
                                             const std::string& metric);

}  // namespace privgrad::core
