// Refuses JSON that is nested too deeply, before it is parsed.
#pragma once

#include <cstddef>
#include <string_view>

namespace privgrad::core {

/// Whether the brackets of a JSON text open deeper than `limit`, in one pass over it. To be asked
/// before the text is parsed: what is parsed gets copied by recursion, and the parser's own callback
/// takes time quadratic in the length of a list.
inline bool nested_deeper_than(int limit, std::string_view text) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_text) {
      if (c == '\\') ++at;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > limit) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace privgrad::core
