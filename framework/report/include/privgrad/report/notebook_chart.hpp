// Draws a chart as SVG for notebooks.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace privgrad::report {

/// \param chart  {"title", "x", "y", "series": [{"name", "points": [[x, y], ...]}]}, or
///   {"title", "x", "rows": [[name, value, low, high], ...]}; finite numbers.
/// \returns the picture, in the colours of the surrounding text; "" if there are no points or rows.
/// \throws nlohmann::json::exception if members are missing or have wrong types.
std::string notebook_chart(const nlohmann::json& chart);

}  // namespace privgrad::report
