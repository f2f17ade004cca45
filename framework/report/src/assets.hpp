// The scripts and style sheet that every HTML page carries, embedded in the program.
#pragma once

#include <string_view>

namespace privgrad::report {

/// Embedded at build time; none of them contains the end of a script or style element (a test
/// asserts this).
extern const std::string_view kChartJs, kPageJs, kPageCss;

}  // namespace privgrad::report
