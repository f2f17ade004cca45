#pragma once

#include <string>

#include "chart.hpp"

namespace privgrad::report {

/// The chart as a picture of its own, for pages that run no script. Light background, lines with
/// markers and error bars, a legend below. "" if there is nothing to draw.
std::string svg_chart(const Chart& chart);

}  // namespace privgrad::report
