#include "paragraphs.hpp"

#include <algorithm>
#include <cstddef>

namespace privgrad::report {

std::string wrapped_paragraphs(const std::vector<std::string>& paragraphs) {
  constexpr std::size_t kWidth = 100;
  std::string text;
  for (const std::string& words : paragraphs) {
    if (!text.empty()) text += "\n";
    std::size_t column = 0;
    for (std::size_t begin = 0; begin < words.size();) {
      const std::size_t end = std::min(words.find(' ', begin), words.size());
      const bool fits = column + 1 + (end - begin) <= kWidth;
      if (column > 0) text += fits ? " " : "\n";
      column = (column > 0 && fits ? column + 1 : 0) + (end - begin);
      for (const char c : words.substr(begin, end - begin)) {
        const auto byte = static_cast<unsigned char>(c);
        text += byte < 0x20 || byte == 0x7f ? '?' : c;
      }
      begin = end + 1;
    }
    text += "\n";
  }
  return text;
}

}  // namespace privgrad::report
