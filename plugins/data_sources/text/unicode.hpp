// Characters of UTF-8 texts and what tokenizers ask of them, by the Unicode tables of utf8proc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

struct Character {
  char32_t code = 0;
  std::size_t size = 1;  ///< In bytes.
};

/// The character that begins at a place of any bytes. Where none does it is U+FFFD, and stands for
/// the longest beginning of a character there, or else for one byte, as in Unicode 15, section 3.9.
Character character_at(std::string_view text, std::size_t at);

/// The text with U+FFFD for what is not UTF-8.
/// \param buffer  memory for the result, if that is not the text itself.
std::string_view well_formed(std::string_view text, std::string& buffer);

void append_utf8(char32_t code, std::string& to);

bool is_space(char32_t code);  ///< The property White_Space.
bool is_letter(char32_t code);
bool is_number(char32_t code);
/// Unicode's punctuation, and ASCII's, which has symbols such as $ too.
bool is_punctuation(char32_t code);

/// The normalizer of BERT's models, as Hugging Face's tokenizers define it.
struct BertNormalizer {
  bool clean_text = true;            ///< Drops control characters; spaces of all kinds become ' '.
  bool handle_chinese_chars = true;  ///< Puts spaces around CJK ideographs.
  bool strip_accents = true;         ///< Decomposes, and drops non-spacing marks.
  bool lowercase = true;

  /// \param text  well-formed UTF-8.
  std::string normalized(std::string_view text) const;
};
