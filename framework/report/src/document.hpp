// Wraps a page's body into a complete, self-contained HTML document.
#pragma once

#include <string>

#include "chart.hpp"

namespace privgrad::report {

struct Page {
  std::string html;
  Charts charts;
};

/// Returns the whole page around `body`, which is HTML. `title` is plain text.
Page document(const std::string& title, const std::string& body, Charts charts);

}  // namespace privgrad::report
