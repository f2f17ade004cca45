// Names that a file gives, as messages show them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// The text's beginning, at most `most` bytes and whole characters, with '?' for control characters
/// of ASCII. Others stay as they are: whoever shows a message decides what a terminal may get.
inline std::string shown_text(std::string_view text, std::size_t most = 80) {
  const auto continues = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
  };
  std::size_t size = text.size() < most ? text.size() : most;
  while (size < text.size() && size > 0 && continues(text[size])) --size;
  std::string out;
  for (const char byte : text.substr(0, size)) {
    const auto code = static_cast<unsigned char>(byte);
    out += code >= ' ' && code != 0x7f ? byte : '?';
  }
  return out;
}
