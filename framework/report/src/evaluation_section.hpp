// The section of a run's page about the final model's quality on the test rows.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "chart.hpp"

namespace privgrad::report {

/// The final model's quality on the test rows: the confusion matrix, the measures of each class,
/// and for two classes the ROC curve. "" if `evaluation` is null.
/// \param source  the summary's name, for errors.
/// \throws IoError naming a malformed part.
std::string evaluation_section(const nlohmann::json& evaluation, const std::string& source,
                               Charts& charts);

}  // namespace privgrad::report
