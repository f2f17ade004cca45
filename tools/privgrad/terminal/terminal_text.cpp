#include "terminal_text.hpp"

#include <cstddef>
#include <cstdint>

#include "privgrad/manifest/utf8.hpp"

namespace privgrad::tool {
namespace {

bool is_harmless(std::uint32_t code) {
  return code == '\n' || code == '\t' || core::is_shown(code);
}

/// Calls `harmless` with the bytes of each harmless character, and `harmful` with the code point of
/// every other character. Bytes that are not UTF-8 are harmful, with code point U+FFFD.
template <class Harmless, class Harmful>
void each_character(std::string_view text, const Harmless& harmless, const Harmful& harmful) {
  constexpr std::uint32_t kReplacement = 0xfffd;
  while (!text.empty()) {
    const auto [code, length] = core::decode_utf8(text);
    const std::size_t count = length == 0 ? 1 : length;
    if (length != 0 && is_harmless(code)) {
      harmless(text.substr(0, count));
    } else {
      harmful(length == 0 ? kReplacement : code);
    }
    text.remove_prefix(count);
  }
}

void append_escape(std::string& to, std::uint32_t code) {
  constexpr char kDigits[] = "0123456789abcdef";
  to += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) to += kDigits[(code >> shift) & 15u];
}

}  // namespace

std::string terminal_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  each_character(
      text, [&](std::string_view bytes) { out += bytes; }, [&](std::uint32_t) { out += '?'; });
  return out;
}

std::string terminal_line(std::string_view text) { return core::shown_line(text); }

std::string terminal_json(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  each_character(
      json, [&](std::string_view bytes) { out += bytes; },
      [&](std::uint32_t code) {
        if (code < 0x10000) return append_escape(out, code);
        append_escape(out, 0xd800 + ((code - 0x10000) >> 10));  // RFC 8259, section 7
        append_escape(out, 0xdc00 + ((code - 0x10000) & 0x3ff));
      });
  return out;
}

}  // namespace privgrad::tool
