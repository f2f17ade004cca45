#include "privgrad/trust/hash_chain.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/chained_line.hpp"
#include "privgrad/trust/json_problem.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kHashDigits = 64;
constexpr int kMostNested = 256;  // the JSON of an event is at most 192 levels deep
constexpr std::string_view kKeyOfHash = ",\"hash\":\"";

/// The line without its own hash, and the hash, if the line has the form of a chain's lines.
std::optional<std::pair<std::string, std::string>> without_hash(std::string_view line) {
  const std::size_t tail = kKeyOfHash.size() + kHashDigits + 2;  // ,"hash":"..."}
  if (line.size() <= tail || !line.ends_with("\"}")) return std::nullopt;
  if (line.substr(line.size() - tail, kKeyOfHash.size()) != kKeyOfHash) return std::nullopt;
  return std::pair{std::string(line.substr(0, line.size() - tail)) + "}",
                   std::string(line.substr(line.size() - kHashDigits - 2, kHashDigits))};
}

}  // namespace

ChainedLine parse_chained_line(std::string_view line, std::uint64_t number,
                               std::string_view previous) {
  auto parts = without_hash(line);
  if (!parts) throw IoError("the line does not end in its hash");
  if (sha256_hex(parts->first) != parts->second)
    throw IoError("the line was changed, its hash does not fit");
  if (const std::string wrong = json_problem(kMostNested, parts->first); !wrong.empty())
    throw IoError("the line " + wrong);
  nlohmann::json json = nlohmann::json::parse(parts->first, nullptr, false);
  if (!json.is_object()) throw IoError("the line is not a JSON object");
  if (json.value("previous", nlohmann::json()) != previous)
    throw IoError("a line before it was dropped, inserted or moved");
  if (json.value("line", nlohmann::json()) != number)
    throw IoError("its number is not " + std::to_string(number));
  return {std::move(json), std::move(parts->second)};
}

std::string HashChain::next(nlohmann::json line) {
  line["line"] = ++lines_;
  line["previous"] = last_hash_;
  std::string text = line.dump();
  last_hash_ = sha256_hex(text);
  text.pop_back();
  return text.append(kKeyOfHash).append(last_hash_).append("\"}\n");
}

ChainedLines read_chain(std::string_view text, const std::string& name) {
  ChainedLines read;
  while (read.whole_bytes < text.size()) {
    const std::size_t end = text.find('\n', read.whole_bytes);
    if (end == text.npos) break;
    const std::uint64_t number = read.lines.size() + 1;
    const std::string previous = read.lines.empty() ? "" : read.lines.back().hash;
    try {
      read.lines.push_back(parse_chained_line(text.substr(read.whole_bytes, end - read.whole_bytes),
                                              number, previous));
    } catch (const IoError& problem) {
      throw IoError(name + ":" + std::to_string(number) + ": is broken here: " + problem.what());
    }
    read.whole_bytes = end + 1;
  }
  return read;
}

}  // namespace privgrad::core
