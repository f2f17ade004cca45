// Draws a chart as an SVG picture: on pages, in notebooks, and as a separate file for papers.
#pragma once

#include <string>

#include "chart.hpp"

namespace privgrad::report {

/// The place for which a picture is made.
enum class Place {
  page,      ///< Inside HTML: colours of the page's style sheet, or of the surrounding text.
  notebook,  ///< Like `page`, with the title above the picture.
  file       ///< A separate file: the width of a column (3.5 inches), on white, with the title.
};

/// The chart as SVG, without scripts. Values appear on hover; screen readers get a summary.
/// \returns "" if there is nothing to draw.
std::string svg_chart(const Chart& chart, Place place);

}  // namespace privgrad::report
