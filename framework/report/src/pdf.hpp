// Converts pictures from SVG to PDF, for papers.
#pragma once

#include <filesystem>

namespace privgrad::report {

/// Writes an SVG file as PDF beside it, with rsvg-convert.
/// \returns whether that program is installed; if not, nothing is written.
/// \throws IoError if it fails.
bool write_pdf(const std::filesystem::path& svg, const std::filesystem::path& pdf);

}  // namespace privgrad::report
