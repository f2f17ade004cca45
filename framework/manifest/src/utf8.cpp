#include "privgrad/manifest/utf8.hpp"

namespace privgrad::core {
namespace {

/// Bidirectional formatting characters (Unicode, UAX #9) and zero-width characters: characters that
/// make a line look different from its content.
bool misleads(std::uint32_t code) {
  constexpr struct {
    std::uint32_t first, last;
  } kRanges[] = {{0x00ad, 0x00ad}, {0x061c, 0x061c}, {0x180e, 0x180e},
                 {0x200b, 0x200b}, {0x200e, 0x200f}, {0x202a, 0x202e},
                 {0x2060, 0x206f}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
  for (const auto& range : kRanges) {
    if (code >= range.first && code <= range.last) return true;
  }
  return false;
}

}  // namespace

Decoded decode_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const std::uint32_t first = byte(0);
  if (text.empty()) return {};
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return {};
  std::uint32_t code = first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return {};
    code = (code << 6) | (byte(i) & 0x3fu);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, length};
}

bool is_control(std::uint32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x2028 || code == 0x2029 ||
         code == 0xfeff || code == 0xfffe || code == 0xffff;
}

bool is_shown(std::uint32_t code) {
  return code != '\t' && code != '\n' && code != '\r' && !is_control(code) && !misleads(code);
}

std::string shown_line(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  while (!text.empty()) {
    const auto [code, length] = decode_utf8(text);
    if (length != 0 && is_shown(code)) {
      line += text.substr(0, length);
    } else {
      line += length != 0 && (code == '\n' || code == '\t') ? ' ' : '?';
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return line;
}

}  // namespace privgrad::core
