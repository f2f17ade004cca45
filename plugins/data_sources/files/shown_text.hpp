// Makes names from a file safe for messages.
#pragma once

#include <iconv.h>

#include <cstddef>
#include <string>
#include <string_view>

/// \returns "" if the text is UTF-8; otherwise a description of the problem for messages, with a
///   remedy.
inline std::string encoding_problem(std::string_view text) {
  const iconv_t check = iconv_open("UTF-8", "UTF-8");
  std::string copy(text), out(text.size(), '\0');
  char *from = copy.data(), *to = out.data();
  std::size_t left = copy.size(), room = out.size();
  const bool is_whole = iconv(check, &from, &left, &to, &room) != static_cast<std::size_t>(-1);
  iconv_close(check);
  if (is_whole) return "";
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(text[text.size() - left]);
  return std::string("is not UTF-8 (byte 0x") + kDigits[byte >> 4] + kDigits[byte & 15] +
         "); convert the file: iconv -f latin1 -t utf-8";
}

/// Returns the beginning of the text, at most `most` bytes, in whole characters, with '?' for ASCII
/// control characters. Other control characters are kept, because the code that shows a message
/// decides what a terminal may receive.
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
