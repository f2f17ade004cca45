// Reads and classifies characters of UTF-8 texts for tokenizers, by the tables of utf8proc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

struct Character {
  char32_t code = 0;
  std::size_t size = 1;  ///< Size in bytes.
};

/// Returns the character that begins at a place. If no character begins there, returns U+FFFD for
/// the longest beginning of a character, or for one byte, as in Unicode 15, section 3.9.
Character character_at(std::string_view text, std::size_t at);

/// Returns the text with U+FFFD in place of bytes that are not UTF-8.
/// \param buffer  memory for the result, unless the result is the text itself.
std::string_view well_formed(std::string_view text, std::string& buffer);

void append_utf8(char32_t code, std::string& to);

bool is_space(char32_t code);  ///< The property White_Space.
bool is_letter(char32_t code);
bool is_number(char32_t code);
/// Whether the character is punctuation according to Unicode, or an ASCII symbol such as $.
bool is_punctuation(char32_t code);

/// The normalizer of BERT's models, as Hugging Face's tokenizers define it.
struct BertNormalizer {
  bool clean_text = true;            ///< Drops control characters; every kind of space becomes ' '.
  bool handle_chinese_chars = true;  ///< Puts spaces around CJK ideographs.
  bool strip_accents = true;         ///< Decomposes characters, and drops non-spacing marks.
  bool lowercase = true;

  /// \param text  well-formed UTF-8.
  std::string normalized(std::string_view text) const;
};
