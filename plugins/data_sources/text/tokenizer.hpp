// Tokenizers as Hugging Face's tokenizer.json describes them: texts become the same tokens as in
// Hugging Face's library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "unicode.hpp"

using Token = std::uint32_t;

/// Tokens are below this limit, because they are features: float32 has every whole number up to it.
inline constexpr Token kMostTokens = Token{1} << 24;

/// The memory for the tokens of one text; tokens beyond its end are dropped.
class TokenRow {
 public:
  explicit TokenRow(std::span<float> places) : places_(places) {}

  void add(Token token) {
    if (!is_full()) places_[count_++] = static_cast<float>(token);
  }
  bool is_full() const noexcept { return count_ == places_.size(); }
  std::size_t count() const noexcept { return count_; }

 private:
  std::span<float> places_;
  std::size_t count_ = 0;
};

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>()(text);
  }
};
using Vocabulary = std::unordered_map<std::string, Token, TextHash, std::equal_to<>>;

/// Turns one word into tokens. Threads: immutable.
class WordModel {
 public:
  WordModel() = default;
  virtual ~WordModel() = default;
  WordModel(const WordModel&) = delete;
  WordModel& operator=(const WordModel&) = delete;
  virtual void add_tokens(std::string_view word, TokenRow& to) const = 0;
};

/// Repeatedly splits off the longest piece of the vocabulary with which the rest of a word begins.
class WordPiece final : public WordModel {
 public:
  static constexpr std::size_t kMostCharacters = 1000;  ///< The largest `most_characters`.

  WordPiece(Vocabulary whole, const std::string& prefix, Token unknown,
            std::size_t most_characters);
  void add_tokens(std::string_view word, TokenRow& to) const override;

 private:
  Vocabulary first_, later_;  ///< Pieces at a word's beginning, and inside (without prefix).
  std::size_t longest_ = 0;   ///< The longest piece, in bytes.
  Token unknown_;
  std::size_t most_characters_;  ///< Longer words are unknown.
};

/// Byte-pair encoding of a word's bytes: the pair with the lowest rank (the first of equals) is
/// merged into one token, repeatedly. A word of more than kMostWord bytes is cut into pieces of
/// that size, which are encoded one after the other, each by itself. This limits the memory for
/// merging. Encoding stops at the first piece after the row is full.
class BytePairs final : public WordModel {
 public:
  static constexpr std::size_t kMostWord = std::size_t{1} << 16;

  struct Merge {
    std::uint32_t rank;
    Token token;
  };
  using Merges = std::unordered_map<std::uint64_t, Merge>;  ///< By first << 32 | second.

  BytePairs(const std::array<Token, 256>& bytes, Merges merges)
      : bytes_(bytes), merges_(std::move(merges)) {}
  void add_tokens(std::string_view word, TokenRow& to) const override;

 private:
  void add_piece(std::string_view piece, TokenRow& to) const;

  std::array<Token, 256> bytes_;
  Merges merges_;
};

/// A whole tokenizer. Without a model, each byte of a text is a token. Threads: immutable.
struct Tokenizer {
  std::vector<std::pair<std::string, Token>> added;  ///< Texts that are always tokens.
  std::optional<BertNormalizer> normalizer;
  bool splits_like_gpt2 = false;  ///< If false, splits like BERT.
  bool add_prefix_space = false;  ///< For GPT-2: whether every text must begin with a space.
  std::unique_ptr<const WordModel> model;
  std::vector<Token> before, after;  ///< Tokens before and after each text's own.
  std::size_t size = 256;            ///< More than the largest token.
  std::string sha256 = {};           ///< Of the bytes of its file; "" without a file.

  /// Writes the tokens of a text, as many as fit, and kEmptyPlace after the last. An empty text has
  /// no tokens. Bytes that are not UTF-8 count as U+FFFD, except without a model.
  /// \param to  longer than `before` and `after` together.
  void encode(std::string_view text, std::span<float> to) const;

 private:
  void add_divided(std::string_view text, TokenRow& to) const;
  void add_text(std::string_view text, TokenRow& to) const;
};

/// Reads a tokenizer.json.
/// \throws IoError if the file is broken, or a member requests something unsupported; the message
///   names the member and a remedy.
Tokenizer read_tokenizer(const std::filesystem::path& file);
