#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace privgrad::core {

/// What a ledger file says.
struct LedgerContents {
  nlohmann::json facts;
  struct Release {
    std::uint64_t step = 0;
    nlohmann::json event;
    double epsilon = 0.0;  ///< Running total; infinity where the file says null.
    std::string what;      ///< "" for a training step, else as in Charge.
  };
  std::vector<Release> releases;
  std::optional<std::string> status;  ///< Of the "close" line; nothing: the run was cut off.
  bool torn_tail = false;             ///< The last line was cut off (and counts for nothing).
};

/// Reads and verifies a ledger.
/// \throws IoError naming the line if the chain is broken: a line was changed, dropped, or
/// inserted.
LedgerContents read_ledger(const std::filesystem::path& file);

}  // namespace privgrad::core
