#include "tokenizer.hpp"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "privgrad/network.hpp"

namespace {

/// Splits a text into words as BERT does: at spaces, and around each punctuation character.
template <class Take>
void for_each_bert_word(std::string_view text, const Take& take) {
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, size] = character_at(text, at);
    const bool is_mark = is_punctuation(code);
    if (is_mark || is_space(code)) {
      if (start < at && !take(text.substr(start, at - start))) return;
      if (is_mark && !take(text.substr(at, size))) return;
      start = at + size;
    }
    at += size;
  }
  if (start < text.size()) take(text.substr(start));
}

enum class Sort { letter, number, space, other };

Sort sort_of(char32_t code) {
  if (is_letter(code)) return Sort::letter;
  if (is_number(code)) return Sort::number;
  return is_space(code) ? Sort::space : Sort::other;
}

/// Returns the end of the run of characters of `sort` that begins at `at`.
/// \param last  out: where the run's last character begins.
std::size_t end_of_run(std::string_view text, std::size_t at, Sort sort, std::size_t& last) {
  last = at;
  while (at < text.size()) {
    const auto [code, size] = character_at(text, at);
    if (sort_of(code) != sort) break;
    last = at;
    at += size;
  }
  return at;
}

/// Returns the end of the word that begins at `at`, by GPT-2's expression:
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t end_of_gpt2_word(std::string_view text, std::size_t at) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.substr(at).starts_with(ending)) return at + ending.size();
  }
  std::size_t last = 0;
  const std::size_t begin = at + (text[at] == ' ' && at + 1 < text.size() ? 1 : 0);
  const Sort sort = sort_of(character_at(text, begin).code);
  if (sort != Sort::space) return end_of_run(text, begin, sort, last);
  const std::size_t end = end_of_run(text, at, Sort::space, last);
  return end == text.size() || last == at ? end : last;
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (byte & 0xc0) != 0x80; }));
}

}  // namespace

WordPiece::WordPiece(Vocabulary whole, const std::string& prefix, Token unknown,
                     std::size_t most_characters)
    : first_(std::move(whole)), unknown_(unknown), most_characters_(most_characters) {
  for (const auto& [text, token] : first_) {
    longest_ = std::max(longest_, text.size());
    if (text.starts_with(prefix)) later_.emplace(text.substr(prefix.size()), token);
  }
}

void WordPiece::add_tokens(std::string_view word, TokenRow& to) const {
  if (word.size() > most_characters_ && count_characters(word) > most_characters_)
    return to.add(unknown_);
  std::vector<Token> found;
  for (std::size_t at = 0; at < word.size();) {
    const Vocabulary& pieces = at == 0 ? first_ : later_;
    std::size_t size = std::min(longest_, word.size() - at);
    auto piece = pieces.end();
    for (; size > 0; --size) {
      const bool is_cut = at + size < word.size() && (word[at + size] & 0xc0) == 0x80;
      if (is_cut) continue;
      piece = pieces.find(word.substr(at, size));
      if (piece != pieces.end()) break;
    }
    if (size == 0) return to.add(unknown_);
    found.push_back(piece->second);
    at += size;
  }
  for (const Token token : found) to.add(token);
}

void BytePairs::add_tokens(std::string_view word, TokenRow& to) const {
  for (std::size_t at = 0; at < word.size() && !to.is_full(); at += kMostWord)
    add_piece(word.substr(at, kMostWord), to);
}

void BytePairs::add_piece(std::string_view piece, TokenRow& to) const {
  constexpr auto kNone = std::numeric_limits<std::uint32_t>::max();
  struct Symbol {
    Token token;
    std::uint32_t before, behind;  ///< The symbol's neighbours, or kNone.
    bool is_there = true;
  };
  struct Candidate {
    std::uint32_t rank, at;
    Token first, second, merged;
    bool operator<(const Candidate& other) const {
      return std::tie(rank, at) > std::tie(other.rank, other.at);  // the smallest rank is on top
    }
  };
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  std::priority_queue<Candidate> queue;
  const auto offer = [&](std::uint32_t at) {
    if (at == kNone || symbols[at].behind == kNone) return;
    const Token first = symbols[at].token, second = symbols[symbols[at].behind].token;
    const auto merge = merges_.find(std::uint64_t{first} << 32 | second);
    if (merge != merges_.end())
      queue.push({merge->second.rank, at, first, second, merge->second.token});
  };
  const auto count = static_cast<std::uint32_t>(piece.size());
  for (std::uint32_t i = 0; i < count; ++i)
    symbols.push_back({bytes_[static_cast<unsigned char>(piece[i])], i - 1,
                       i + 1 < count ? i + 1 : kNone});  // the first `before` wraps to kNone
  for (std::uint32_t i = 0; i < count; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& symbol = symbols[best.at];
    if (!symbol.is_there || symbol.token != best.first || symbol.behind == kNone ||
        symbols[symbol.behind].token != best.second)
      continue;
    Symbol& gone = symbols[symbol.behind];
    gone.is_there = false;
    symbol.token = best.merged;
    symbol.behind = gone.behind;
    if (symbol.behind != kNone) symbols[symbol.behind].before = best.at;
    offer(symbol.before);
    offer(best.at);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.is_there) to.add(symbol.token);
  }
}

void Tokenizer::add_text(std::string_view text, TokenRow& to) const {
  std::string normalized;
  if (normalizer) text = normalized = normalizer->normalized(text);
  const auto take = [&](std::string_view word) {
    model->add_tokens(word, to);
    return !to.is_full();
  };
  if (!splits_like_gpt2) return for_each_bert_word(text, take);
  std::string spaced;
  if (add_prefix_space && !text.starts_with(' ')) text = spaced = " " + std::string(text);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_gpt2_word(text, at);
    if (!take(text.substr(at, end - at))) return;
    at = end;
  }
}

/// Divides the text at its added tokens; if several begin at one place, uses the longest.
void Tokenizer::add_divided(std::string_view text, TokenRow& to) const {
  std::vector<std::size_t> next(added.size(), 0);  // the next occurrence of each token
  for (std::size_t at = 0; at < text.size() && !to.is_full();) {
    std::size_t first = text.size(), found = added.size();
    for (std::size_t i = 0; i < added.size(); ++i) {
      if (next[i] <= at) next[i] = std::min(text.find(added[i].first, at), text.size());
      const bool is_longer = found < added.size() && next[i] == first &&
                             added[i].first.size() > added[found].first.size();
      if (next[i] >= first && !is_longer) continue;
      first = next[i];
      found = i;
    }
    if (first > at) add_text(text.substr(at, first - at), to);
    if (found == added.size()) return;
    to.add(added[found].second);
    at = first + added[found].first.size();
  }
}

void Tokenizer::encode(std::string_view text, std::span<float> to) const {
  std::ranges::fill(to, privgrad::kEmptyPlace);
  if (text.empty()) return;
  TokenRow row(to.first(to.size() - after.size()));
  for (const Token token : before) row.add(token);
  if (!model) {
    for (std::size_t i = 0; i < text.size() && !row.is_full(); ++i)
      row.add(static_cast<unsigned char>(text[i]));
  } else {
    std::string buffer;
    text = well_formed(text, buffer);
    add_divided(text, row);
  }
  TokenRow last(to.subspan(row.count(), after.size()));
  for (const Token token : after) last.add(token);
}
