// Converts pictures from SVG to PDF, for papers.
#pragma once

#include <filesystem>

namespace privgrad::report {

/// Converts an SVG file to PDF with rsvg-convert.
/// \returns whether rsvg-convert is installed; if not, nothing is written.
/// \throws IoError if the conversion fails.
bool write_pdf(const std::filesystem::path& svg, const std::filesystem::path& pdf);

}  // namespace privgrad::report
