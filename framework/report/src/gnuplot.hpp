// Runs gnuplot, which draws the pictures of Markdown pages.
#pragma once

#include <string>

namespace privgrad::report {

/// Runs gnuplot on commands, without the settings of the user.
/// \returns what it wrote to its standard output.
/// \throws IoError with what gnuplot said, if it fails or is not installed.
std::string gnuplot(const std::string& commands);

}  // namespace privgrad::report
