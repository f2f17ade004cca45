// Wraps a page's body into a complete, self-contained HTML document.
#pragma once

#include <string>

#include "chart.hpp"

namespace privgrad::report {

/// The whole page around `body`, which is HTML. `title` is plain text.
std::string document(const std::string& title, const std::string& body, const Charts& charts);

}  // namespace privgrad::report
