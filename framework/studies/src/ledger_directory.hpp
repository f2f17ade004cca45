#pragma once

#include <cstdint>
#include <filesystem>

namespace privgrad::core {

/// Holds the ledgers of an audit, and is gone with them. In memory where there is a file system for
/// that: a ledger waits for its disk, and these need not outlive the process.
class LedgerDirectory {
 public:
  /// \throws IoError if it cannot be made.
  LedgerDirectory();
  LedgerDirectory(const LedgerDirectory&) = delete;
  LedgerDirectory& operator=(const LedgerDirectory&) = delete;
  ~LedgerDirectory();

  std::filesystem::path file(std::uint64_t run) const;

 private:
  std::filesystem::path path_;
};

}  // namespace privgrad::core
