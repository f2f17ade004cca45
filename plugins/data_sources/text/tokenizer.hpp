// Tokenizers as Hugging Face's tokenizer.json describes them: texts become the very tokens that
// their library makes of them.
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

/// Tokens are features, and below it every whole number is one in float32.
inline constexpr Token kMostTokens = Token{1} << 24;

/// A place for the tokens of one text, which takes no more than it has room for.
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

/// What makes tokens of one word. Threads: immutable.
class WordModel {
 public:
  WordModel() = default;
  virtual ~WordModel() = default;
  WordModel(const WordModel&) = delete;
  WordModel& operator=(const WordModel&) = delete;
  virtual void add_tokens(std::string_view word, TokenRow& to) const = 0;
};

/// The longest piece of the vocabulary at the beginning of a word, then at that of the rest, ...
class WordPiece final : public WordModel {
 public:
  static constexpr std::size_t kMostCharacters = 1000;  ///< The largest `most_characters`.

  WordPiece(Vocabulary whole, const std::string& prefix, Token unknown,
            std::size_t most_characters);
  void add_tokens(std::string_view word, TokenRow& to) const override;

 private:
  Vocabulary first_, later_;  ///< Pieces at the beginning of a word; and inside, without prefix.
  std::size_t longest_ = 0;   ///< In bytes.
  Token unknown_;
  std::size_t most_characters_;  ///< A longer word is unknown.
};

/// Byte-pair encoding of a word's bytes: the pair of the lowest rank becomes one token, again and
/// again; of equal ones the first. A word of more than kMostWord bytes is several, so that the
/// memory for a text is a small multiple of its size, and a long text costs what its beginning does.
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

/// A whole tokenizer; without a model each byte of a text is a token. Threads: immutable.
struct Tokenizer {
  std::vector<std::pair<std::string, Token>> added;  ///< Texts that are tokens wherever they are.
  std::optional<BertNormalizer> normalizer;
  bool splits_like_gpt2 = false;  ///< If not, like BERT.
  bool add_prefix_space = false;  ///< GPT-2's: whether a text that begins with no space gets one.
  std::unique_ptr<const WordModel> model;
  std::vector<Token> before, after;  ///< Tokens around those of each text.
  std::size_t size = 256;            ///< More than the largest token.
  std::string sha256 = {};           ///< Of the bytes of its file; "" without a file.

  /// Writes the tokens of a text, as many as there is room for, and kEmptyPlace behind the last. A
  /// text without a byte has none. What is not UTF-8 counts as U+FFFD, except without a model.
  /// \param to  longer than `before` and `after` together.
  void encode(std::string_view text, std::span<float> to) const;

 private:
  void add_divided(std::string_view text, TokenRow& to) const;
  void add_text(std::string_view text, TokenRow& to) const;
};

/// Reads a tokenizer.json.
/// \throws IoError  the file is broken, or a member asks for something that is not done here; it
///   names that, and a way out.
Tokenizer read_tokenizer(const std::filesystem::path& file);
