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

/// The contents of a ledger file.
struct LedgerContents {
  nlohmann::json facts;
  struct Release {
    std::uint64_t step = 0;
    nlohmann::json event;
    double epsilon = 0.0;         ///< Running total; infinity where the file says null.
    std::string what;             ///< "" for a training step, else as in Charge.
    nlohmann::json release;       ///< The step's own noise, before amplification.
    nlohmann::json delta, bound;  ///< Of the running total, as the line has them.
  };
  std::vector<Release> releases;
  std::optional<std::string> status;  ///< From the "close" line; nothing: the run was cut off.
  bool torn_tail = false;             ///< The last line was cut off (and counts for nothing).
  nlohmann::json close;               ///< The "close" line; null: there is none.
  std::string first_hash, last_hash;  ///< Hashes of the first and last lines; "": no lines.
};

/// Reads and verifies a ledger.
/// \throws IoError naming the line if the chain is broken: a line was changed, dropped, or
/// inserted.
LedgerContents read_ledger(const std::filesystem::path& file);

/// The same for a text that was read already.
/// \param name  the text's name, for errors.
LedgerContents parse_ledger(std::string_view text, const std::string& name);

}  // namespace privgrad::core
