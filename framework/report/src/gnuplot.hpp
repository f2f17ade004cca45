// Runs gnuplot, which draws the pictures of Markdown pages.
#pragma once

#include <string>

namespace privgrad::report {

/// Runs gnuplot on commands, without the user's settings.
/// \returns its standard output.
/// \throws IoError with gnuplot's message, if it fails or is not installed.
std::string gnuplot(const std::string& commands);

}  // namespace privgrad::report
