// The style sheet that every HTML page carries, embedded in the program.
#pragma once

#include <string_view>

namespace privgrad::report {

extern const std::string_view kPageCss;

}  // namespace privgrad::report
