// Draws a chart as an SVG picture with gnuplot, for papers and Markdown pages, which run no
// scripts.
#pragma once

#include <string>

#include "chart.hpp"

namespace privgrad::report {

/// The chart as a separate picture, for pages that run no scripts. Light background, lines with
/// markers and error bars, a legend below. "" if there is nothing to draw.
///
/// Requires gnuplot, which receives numbers, and names as plain text, on its standard input, and
/// writes to no file.
/// \throws IoError if gnuplot is missing or fails.
std::string svg_chart(const Chart& chart);

}  // namespace privgrad::report
