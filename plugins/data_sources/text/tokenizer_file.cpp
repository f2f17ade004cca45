// Reads tokenizer.json, and refuses by name every part that is not understood.
#include <sodium.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>

#include "../files/input_file.hpp"
#include "../files/shown_text.hpp"
#include "tokenizer.hpp"

namespace {

using nlohmann::json;

constexpr std::uint64_t kMostJsonBytes = std::uint64_t{1} << 26;
constexpr int kMostDepth = 64;  ///< Levels of brackets; json writes recursively.

class TokenizerFile {
 public:
  explicit TokenizerFile(const std::filesystem::path& path) : file_(path) {
    std::vector<std::uint8_t> bytes;
    file_.append(bytes, kMostJsonBytes);
    if (!file_.at_end()) file_.fail("is oversized: a tokenizer.json has at most 64 MiB");
    tokenizer_.sha256 = hash_of(bytes);
    const auto check_depth = [this](int depth, json::parse_event_t, const json&) {
      if (depth > kMostDepth)
        file_.fail("is nested deeper than " + std::to_string(kMostDepth) + " levels");
      return true;
    };
    root_ = json::parse(bytes, check_depth, false);
    if (!root_.is_object()) file_.fail("is not a tokenizer.json: it is not a JSON object");
  }

  Tokenizer read() {
    check_keys(root_, "",
               {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                "post_processor", "decoder", "model"});
    read_truncation();
    tokenizer_.size = 0;
    read_model();
    read_normalizer();
    read_splitter();
    read_added();
    read_template();
    return std::move(tokenizer_);
  }

 private:
  static std::string hash_of(const std::vector<std::uint8_t>& bytes) {
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(hash, bytes.data(), bytes.size());
    char digits[2 * sizeof hash + 1];
    return sodium_bin2hex(digits, sizeof digits, hash, sizeof hash);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    file_.fail(what +
               ", which is not supported; make the tokens with privgrad.text.tokenize() in Python, "
               "and read them by data: {kind: npy}");
  }

  /// \returns null if the member is missing, or `object` is not an object.
  static const json& member(const json& object, const std::string& key) {
    static const json none;
    const auto found = object.find(key);
    return found == object.end() ? none : *found;
  }
  const json& needed(const json& object, const std::string& where, const char* key,
                     json::value_t type) const {
    const json& value = member(object, key);
    if (value.type() != type) file_.fail(where + key + " is missing or has the wrong type");
    return value;
  }
  const std::string& text(const json& object, const std::string& where, const char* key) const {
    return needed(object, where, key, json::value_t::string).get_ref<const std::string&>();
  }
  bool flag(const json& object, const std::string& where, const char* key, bool otherwise) const {
    const json& value = member(object, key);
    if (value.is_null()) return otherwise;
    if (!value.is_boolean()) file_.fail(where + key + " must be true or false");
    return value.get<bool>();
  }
  Token token(const json& value, const std::string& where) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= kMostTokens)
      file_.fail(where + " is not a token: expected a whole number below " +
                 std::to_string(kMostTokens));
    const Token found = value.get<Token>();
    tokenizer_.size = std::max(tokenizer_.size, std::size_t{found} + 1);
    return found;
  }

  void check_keys(const json& object, const std::string& where,
                  std::initializer_list<std::string_view> known) const {
    for (const auto& [key, value] : object.items()) {
      if (std::ranges::find(known, key) == known.end())
        refuse("has the member " + where + shown_text(key));
    }
  }
  /// Refuses the member, unless it is missing or its value is `neutral` or null.
  void check_none(const json& object, const std::string& where, const char* key,
                  const json& neutral) const {
    const json& value = member(object, key);
    if (!value.is_null() && value != neutral)
      refuse("has the member " + where + key + ": " + shown_text(dumped(value)));
  }
  static std::string dumped(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  std::string type_of(const json& object, const std::string& where) const {
    return object.is_null() ? "" : text(object, where, "type");
  }
  [[noreturn]] void refuse_type(const std::string& member, const std::string& type) const {
    refuse("has the " + member + " " + (type.empty() ? "null" : shown_text(type)));
  }

  /// Refuses truncation other than on the right. The manifest sets the length, and padding is -1.
  void read_truncation() const {
    const json& truncation = member(root_, "truncation");
    if (truncation.is_null()) return;
    check_none(truncation, "truncation.", "direction", "Right");
    if (member(truncation, "strategy") == "OnlySecond") refuse("has the strategy OnlySecond");
  }

  void read_vocabulary(const json& model) {
    const json& given = needed(model, "model.", "vocab", json::value_t::object);
    std::set<Token> seen;
    for (const auto& [piece, value] : given.items()) {
      const Token number = token(value, "model.vocab: the number of a piece");
      if (!seen.insert(number).second)
        file_.fail("model.vocab has the number " + std::to_string(number) + " twice");
      vocabulary_.emplace(piece, number);
    }
  }

  Token known(const std::string& piece, const std::string& where) const {
    const auto found = vocabulary_.find(piece);
    if (found == vocabulary_.end())
      file_.fail(where + ": model.vocab lacks '" + shown_text(piece, 40) + "'");
    return found->second;
  }

  void read_model() {
    const json& model = needed(root_, "", "model", json::value_t::object);
    // Infers the type if it is missing, as in old files.
    const std::string type = model.contains("type")     ? text(model, "model.", "type")
                             : model.contains("merges") ? "BPE"
                                                        : "WordPiece";
    if (type == "WordPiece") return read_word_piece(model);
    if (type != "BPE") refuse_type("model", type);
    read_byte_pairs(model);
  }

  void read_word_piece(const json& model) {
    check_keys(
        model, "model.",
        {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
    read_vocabulary(model);
    const Token unknown = known(text(model, "model.", "unk_token"), "model.unk_token");
    const auto most =
        needed(model, "model.", "max_input_chars_per_word", json::value_t::number_unsigned)
            .get<std::size_t>();
    if (most > WordPiece::kMostCharacters)
      refuse("has model.max_input_chars_per_word: " + std::to_string(most) + ", which is above " +
             std::to_string(WordPiece::kMostCharacters));
    const std::string& prefix = text(model, "model.", "continuing_subword_prefix");
    tokenizer_.model = std::make_unique<WordPiece>(vocabulary_, prefix, unknown, most);
  }

  /// Returns the characters that represent bytes in GPT-2's vocabulary.
  static std::array<std::string, 256> byte_names() {
    std::array<std::string, 256> names;
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool is_itself = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      append_utf8(is_itself ? byte : next++, names[byte]);
    }
    return names;
  }

  void read_byte_pairs(const json& model) {
    check_keys(model, "model.",
               {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
    check_none(model, "model.", "dropout", 0.0);
    check_none(model, "model.", "continuing_subword_prefix", "");
    check_none(model, "model.", "end_of_word_suffix", "");
    check_none(model, "model.", "ignore_merges", false);
    read_vocabulary(model);
    std::array<Token, 256> bytes{};
    const std::array<std::string, 256> names = byte_names();
    std::ranges::transform(names, bytes.begin(), [&](const std::string& name) {
      return known(name, "model, which must have a token for each byte");
    });
    BytePairs::Merges merges;
    std::uint32_t rank = 0;
    for (const json& given : needed(model, "model.", "merges", json::value_t::array)) {
      const auto [first, second] = pair_of(given);
      const std::uint64_t pair =
          std::uint64_t{known(first, "model.merges")} << 32 | known(second, "model.merges");
      merges.insert_or_assign(pair,
                              BytePairs::Merge{rank++, known(first + second, "model.merges")});
    }
    tokenizer_.model = std::make_unique<BytePairs>(bytes, std::move(merges));
  }

  /// Parses "a b" or, in newer files, ["a", "b"].
  std::pair<std::string, std::string> pair_of(const json& merge) const {
    if (merge.is_string()) {
      const auto& both = merge.get_ref<const std::string&>();
      const std::size_t space = both.find(' ');
      if (space != both.npos && both.find(' ', space + 1) == both.npos)
        return {both.substr(0, space), both.substr(space + 1)};
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    }
    file_.fail("model.merges has an entry that is not a pair of texts");
  }

  void read_normalizer() {
    const json& given = member(root_, "normalizer");
    const std::string type = type_of(given, "normalizer.");
    if (type.empty()) return;
    if (type != "BertNormalizer") refuse_type("normalizer", type);
    check_keys(given, "normalizer.",
               {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
    BertNormalizer form;
    form.clean_text = flag(given, "normalizer.", "clean_text", true);
    form.handle_chinese_chars = flag(given, "normalizer.", "handle_chinese_chars", true);
    form.lowercase = flag(given, "normalizer.", "lowercase", true);
    form.strip_accents = flag(given, "normalizer.", "strip_accents", form.lowercase);
    tokenizer_.normalizer = form;
  }

  void read_splitter() {
    const json& given = member(root_, "pre_tokenizer");
    const std::string type = type_of(given, "pre_tokenizer.");
    const bool has_pairs = dynamic_cast<const BytePairs*>(tokenizer_.model.get()) != nullptr;
    if (type != (has_pairs ? "ByteLevel" : "BertPreTokenizer")) refuse_type("pre_tokenizer", type);
    if (!has_pairs) return check_keys(given, "pre_tokenizer.", {"type"});
    check_keys(given, "pre_tokenizer.", {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    check_none(given, "pre_tokenizer.", "use_regex", true);
    tokenizer_.splits_like_gpt2 = true;
    tokenizer_.add_prefix_space = flag(given, "pre_tokenizer.", "add_prefix_space", true);
  }

  void read_added() {
    const json& given = member(root_, "added_tokens");
    if (given.is_null()) return;
    Token next = static_cast<Token>(vocabulary_.size());
    for (const json& one : needed(root_, "", "added_tokens", json::value_t::array)) {
      const std::string& content = text(one, "added_tokens.", "content");
      const std::string where = "added_tokens: '" + shown_text(content, 40) + "': ";
      check_keys(one, where,
                 {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      for (const char* key : {"single_word", "lstrip", "rstrip"})
        check_none(one, where, key, false);
      if (tokenizer_.normalizer) check_none(one, where, "normalized", false);
      const Token number = token(member(one, "id"), where + "id");
      const auto found = vocabulary_.find(content);
      const bool is_new = found == vocabulary_.end();
      if (content.empty() || number != (is_new ? next : found->second))
        refuse("has " + where + "an id that differs from its place");
      next += is_new ? 1 : 0;
      vocabulary_.emplace(content, number);
      tokenizer_.added.emplace_back(content, number);
    }
  }

  void read_template() {
    const json& given = member(root_, "post_processor");
    const std::string type = type_of(given, "post_processor.");
    if (type.empty() || type == "ByteLevel") return;  // ByteLevel changes offsets, not tokens
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      for (const auto& [key, tokens] :
           {std::pair("cls", &tokenizer_.before), std::pair("sep", &tokenizer_.after)}) {
        const json& one = needed(given, "post_processor.", key, json::value_t::array);
        tokens->push_back(
            token(one.size() == 2 ? one[1] : one, "post_processor." + std::string(key)));
      }
      return;
    }
    if (type != "TemplateProcessing") refuse_type("post_processor", type);
    check_keys(given, "post_processor.", {"type", "single", "pair", "special_tokens"});
    const json& special = needed(given, "post_processor.", "special_tokens", json::value_t::object);
    bool is_behind = false;
    for (const json& piece : needed(given, "post_processor.", "single", json::value_t::array)) {
      if (!piece.is_object() || piece.size() != 1)
        file_.fail("post_processor.single has an entry that is not an object with one member");
      const std::string& key = piece.begin().key();
      const json& value = piece.begin().value();
      const std::string where = "post_processor.single: " + shown_text(key);
      if (!value.is_object() || member(value, "type_id") != 0)
        refuse("has a type_id other than 0 in " + where);
      const bool is_text = key == "Sequence";
      if (is_text ? is_behind || member(value, "id") != "A" : key != "SpecialToken")
        refuse("has " + where + " at an unexpected place");
      if (!is_text) add_special(special, text(value, where + ".", "id"), is_behind);
      is_behind = is_behind || is_text;
    }
    if (!is_behind) refuse("has a post_processor.single without the text");
  }

  void add_special(const json& special, const std::string& name, bool is_behind) {
    const std::string where = "post_processor.special_tokens: '" + shown_text(name, 40) + "'.";
    const json& one = member(special, name);
    for (const json& value : needed(one, where, "ids", json::value_t::array))
      (is_behind ? tokenizer_.after : tokenizer_.before).push_back(token(value, where + "ids"));
  }

  InputFile file_;
  json root_;
  Vocabulary vocabulary_;
  Tokenizer tokenizer_;
};

}  // namespace

Tokenizer read_tokenizer(const std::filesystem::path& file) { return TokenizerFile(file).read(); }
