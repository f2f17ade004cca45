// JSON lines chained by SHA-256, the format of ledgers and accounts.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace privgrad::core {

/// Lines of JSON of which each carries its number, the hash of the line before it, and its own
/// (SHA-256): none can be changed, dropped or moved without a trace, but for lines at the end.
class HashChain {
 public:
  /// An empty one.
  HashChain() = default;
  /// Continues a chain of `lines` lines, the last of which has the hash `last_hash`.
  HashChain(std::uint64_t lines, std::string last_hash)
      : lines_(lines), last_hash_(std::move(last_hash)) {}

  /// \param line  an object without `line`, `previous` and `hash`.
  /// \returns the next line of the file, with its line end.
  std::string next(nlohmann::json line);

  std::uint64_t lines() const noexcept { return lines_; }
  const std::string& last_hash() const noexcept { return last_hash_; }

 private:
  std::uint64_t lines_ = 0;
  std::string last_hash_;
};

struct ChainedLine {
  nlohmann::json json;  ///< Without its own hash.
  std::string hash;
};

/// \param line  without its line end.
/// \param number  number of the line, from 1 on.
/// \param previous  the hash of the line before it; "" of the first.
/// \throws IoError, without a place, if it is not such a line.
ChainedLine parse_chained_line(std::string_view line, std::uint64_t number,
                               std::string_view previous);

struct ChainedLines {
  std::vector<ChainedLine> lines;
  /// Bytes of the complete lines. The rest of the text was cut off while it was written.
  std::size_t whole_bytes = 0;
};

/// Reads and checks a chain.
/// \param name  the file's name, for errors.
/// \throws IoError naming the first line that does not fit.
ChainedLines read_chain(std::string_view text, const std::string& name);

}  // namespace privgrad::core
