#include "unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

namespace {

constexpr char32_t kReplacement = 0xfffd;

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool is_within(utf8proc_category_t found, utf8proc_category_t first, utf8proc_category_t last) {
  return found >= first && found <= last;
}

/// Returns whether BertNormalizer::clean_text drops the character.
bool is_dropped(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  if (code < 0x80) return code < 0x20 || code == 0x7f;
  if (code == kReplacement) return true;
  return is_within(category(code), UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO);
}

/// Whether a character is in the blocks of BertNormalizer::handle_chinese_chars.
bool is_ideograph(char32_t code) {
  const auto within = [code](char32_t first, char32_t last) {
    return code >= first && code <= last;
  };
  return within(0x4e00, 0x9fff) || within(0x3400, 0x4dbf) || within(0x20000, 0x2a6df) ||
         within(0x2a700, 0x2b73f) || within(0x2b740, 0x2b81f) || within(0x2b920, 0x2ceaf) ||
         within(0xf900, 0xfaff) || within(0x2f800, 0x2fa1f);
}

auto combining_class(char32_t code) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
}

/// Receives a text's characters one by one, applies the last steps of the normalizer to them, and
/// appends the result to a text.
class Accents {
 public:
  Accents(const BertNormalizer& form, std::string& to) : form_(form), to_(to) {}

  void take(char32_t code) {
    if (code < 0x80 || !form_.strip_accents) return take_part(code, 0);
    utf8proc_int32_t parts[32];
    int unused = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts,
                                               std::ssize(parts), UTF8PROC_DECOMPOSE, &unused);
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const auto part = static_cast<char32_t>(parts[i]);
      take_part(part, combining_class(part));
    }
  }

  /// Writes the marks that follow the last character that is not a mark, in canonical order.
  void finish() {
    if (marks_.size() > 1) std::ranges::stable_sort(marks_, {}, combining_class);
    for (const char32_t mark : marks_) put(mark);
    marks_.clear();
  }

 private:
  void take_part(char32_t code, utf8proc_propval_t combining) {
    if (combining != 0) {
      marks_.push_back(code);
      return;
    }
    if (!marks_.empty()) finish();
    put(code);
  }

  void put(char32_t code) {
    if (code < 0x80) {
      to_ += static_cast<char>(form_.lowercase && code >= 'A' && code <= 'Z' ? code + 0x20 : code);
      return;
    }
    if (form_.strip_accents && category(code) == UTF8PROC_CATEGORY_MN) return;
    if (form_.lowercase) {
      if (code == 0x130) to_ += "i\u0307";  // the only character with a two-character lower case
      if (code == 0x130) return;
      code = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
    }
    append_utf8(code, to_);
  }

  const BertNormalizer& form_;
  std::string& to_;
  std::vector<char32_t> marks_;
};

}  // namespace

Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xc2 || lead > 0xf4) return {kReplacement, 1};
  const std::size_t more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
  unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  char32_t code = lead & (0x3fu >> more);
  for (std::size_t i = 1; i <= more; ++i) {
    if (at + i >= text.size() || byte(at + i) < low || byte(at + i) > high)
      return {kReplacement, i};
    code = code << 6 | (byte(at + i) & 0x3fu);
    low = 0x80;
    high = 0xbf;
  }
  return {code, more + 1};
}

void append_utf8(char32_t code, std::string& to) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  to.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

std::string_view well_formed(std::string_view text, std::string& buffer) {
  buffer.clear();
  bool is_changed = false;
  std::size_t copied = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character found = character_at(text, at);
    const bool is_bad = found.code == kReplacement && text.substr(at, found.size) != "\xef\xbf\xbd";
    if (is_bad) {
      buffer.append(text, copied, at - copied);
      append_utf8(kReplacement, buffer);
      copied = at + found.size;
      is_changed = true;
    }
    at += found.size;
  }
  if (!is_changed) return text;
  return buffer.append(text, copied);
}

bool is_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 0x09 && code <= 0x0d);
  return code == 0x85 || is_within(category(code), UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool is_letter(char32_t code) {
  if (code < 0x80) return (code | 0x20) >= 'a' && (code | 0x20) <= 'z';
  return is_within(category(code), UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}

bool is_number(char32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  return is_within(category(code), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool is_punctuation(char32_t code) {
  if (code < 0x80) return code > ' ' && code < 0x7f && !is_letter(code) && !is_number(code);
  return is_within(category(code), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

std::string BertNormalizer::normalized(std::string_view text) const {
  std::string result;
  result.reserve(text.size());
  Accents rest(*this, result);
  for (std::size_t at = 0; at < text.size();) {
    auto [code, size] = character_at(text, at);
    at += size;
    if (clean_text && is_dropped(code)) continue;
    if (clean_text && is_space(code)) code = ' ';
    const bool is_set_apart = handle_chinese_chars && is_ideograph(code);
    if (is_set_apart) rest.take(' ');
    rest.take(code);
    if (is_set_apart) rest.take(' ');
  }
  rest.finish();
  return result;
}
