// JSON lines chained by SHA-256, the format of ledgers and accounts.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

namespace privgrad::core {

/// Lines of JSON that each carry their number, the hash of the preceding line, and their own hash
/// (SHA-256). Changing, dropping or moving a line is detected, except for lines at the end.
class HashChain {
 public:
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

}  // namespace privgrad::core
