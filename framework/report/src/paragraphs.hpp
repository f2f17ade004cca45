// Wraps paragraphs of text for a terminal.
#pragma once

#include <string>
#include <vector>

namespace privgrad::report {

/// Paragraphs as text for a terminal: lines of at most 100 columns if words allow it, an empty line
/// between paragraphs; ASCII control characters become '?'.
std::string wrapped_paragraphs(const std::vector<std::string>& paragraphs);

}  // namespace privgrad::report
