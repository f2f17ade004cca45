// Draws a chart as an SVG picture with gnuplot, for papers and Markdown pages, which run no scripts.
#pragma once

#include <string>

#include "chart.hpp"

namespace privgrad::report {

/// The chart as a picture of its own, for pages that run no script. Light background, lines with
/// markers and error bars, a legend below. "" if there is nothing to draw.
///
/// gnuplot, which has to be installed, draws it; it is given numbers, and names as plain text, on
/// its standard input, and writes to no file.
/// \throws IoError if there is no gnuplot, or it fails.
std::string svg_chart(const Chart& chart);

}  // namespace privgrad::report
