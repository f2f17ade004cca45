// Decodes UTF-8 from untrusted texts, and makes lines safe to show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace privgrad::core {

/// The first character of a text.
struct Decoded {
  std::uint32_t code = 0;
  std::size_t length = 0;  ///< In bytes; 0: the text does not begin with UTF-8.
};

/// Decodes by RFC 3629: only shortest forms, no surrogates, nothing above U+10FFFF.
Decoded decode_utf8(std::string_view text);

/// Whether a character is a control character, which has an effect but is not shown: C0
/// except tab and line breaks, DEL, C1, the line and paragraph separators, U+FEFF, U+FFFE and
/// U+FFFF.
bool is_control(std::uint32_t code);

/// Whether a character is shown and has no other effect. Control characters (also line breaks and
/// tabs, which move the following text), marks of direction, and invisible characters, which would
/// make a line look different from its content, are not shown.
bool is_shown(std::uint32_t code);

/// Makes a text safe to show on one line: line feeds and tabs become blanks, and '?' replaces every
/// other character that is not shown and every byte that is not UTF-8.
std::string shown_line(std::string_view text);

}  // namespace privgrad::core
