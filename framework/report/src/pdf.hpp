// Converts pictures from SVG to PDF, for papers.
#pragma once

#include <filesystem>

namespace privgrad::report {

/// Converts an SVG file to PDF with rsvg-convert.
/// \returns false, and writes nothing, if rsvg-convert is not installed.
/// \throws IoError if the conversion fails.
bool write_pdf(const std::filesystem::path& svg, const std::filesystem::path& pdf);

}  // namespace privgrad::report
