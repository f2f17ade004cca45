// Reads a ledger file and verifies its hash chain.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace privgrad::core {

struct LedgerContents {
  nlohmann::json facts;
  struct Release {
    std::uint64_t step = 0;
    nlohmann::json event;
    double epsilon = 0.0;         ///< Running total; infinity if the file says null.
    std::string what;             ///< "" for a training step, otherwise as in Charge.
    nlohmann::json release;       ///< The step's own noise, before amplification.
    nlohmann::json delta, bound;  ///< Of the running total, as written in the line.
  };
  std::vector<Release> releases;
  std::optional<std::string> status;  ///< From the "close" line; nothing if the run was
                                      ///< interrupted.
  bool torn_tail = false;             ///< Whether the last line was truncated (it then counts for
                                      ///< nothing).
  nlohmann::json close;               ///< The "close" line; null if there is none.
  std::string first_hash, last_hash;  ///< Hashes of the first and last lines; "" if there are no
                                      ///< lines.
};

/// Reads and verifies a ledger.
/// \throws IoError if the file cannot be read; also, naming the line, if the chain is broken
///   because a line was changed, dropped, inserted or moved.
LedgerContents read_ledger(const std::filesystem::path& file);

/// Like read_ledger(), for a text that has already been read.
/// \param name  the text's name, for errors.
LedgerContents parse_ledger(std::string_view text, const std::string& name);

}  // namespace privgrad::core
