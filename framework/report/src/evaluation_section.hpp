#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "chart.hpp"

namespace privgrad::report {

/// What the final model is worth on the test rows: the confusion matrix, what each class is worth,
/// and of two classes the ROC curve. "" if the summary has none.
/// \param source  the summary's name, for errors.
/// \throws IoError naming what is not as runs write it.
std::string evaluation_section(const nlohmann::json& summary, const std::string& source,
                               Charts& charts);

}  // namespace privgrad::report
