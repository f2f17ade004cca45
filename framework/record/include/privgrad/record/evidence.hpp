// Checks that the files of a run match the hashes in its ledgers.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "privgrad/record/record_directory.hpp"
#include "privgrad/trust/ledger_reader.hpp"

namespace privgrad::core {

/// The files whose hashes are in the first line of each ledger. No hash depends on itself: a first
/// line covers these files, which are written before the first step; the model contains a hash of
/// the first lines; the last line of each ledger covers the files of the finished run
/// (files_bound_at_end()); and the page shows the hashes of the last lines.
inline constexpr std::string_view kBoundAtStart[] = {"facts.json", "manifest.yaml",
                                                     "privgrad.lock"};

/// The files whose hashes are in the last line of each ledger, sorted by name.
std::vector<std::string> files_bound_at_end(bool is_federated);

/// The files whose hashes are in the last line of the ledger of a client that is a separate
/// program. The model is missing because the server has it.
std::vector<std::string> files_bound_by_client();

/// \param facts  the first line of a ledger.
/// \returns whether a client that is a separate program wrote this ledger.
bool is_of_client_alone(const nlohmann::json& facts);

inline constexpr std::size_t kMostLedgerBytes = std::size_t{1} << 30;

struct NamedLedger {
  std::string name;  ///< "ledger.jsonl", "ledgers/client-3.jsonl".
  LedgerContents contents;
};

/// The contents of a run's ledgers, and the files that do not match the hashes in them. No plugin
/// is involved; verify_run() checks whether the numbers are right.
struct Evidence {
  /// The ledgers that could be read, in the order of the clients.
  std::vector<NamedLedger> ledgers;
  std::vector<std::string> problems;  ///< "FILE: what is wrong"; at most one per file.

  /// The name of each ledger, and the hash of its last line.
  std::vector<std::pair<std::string, std::string>> seals() const;
};

/// Reads all ledgers, and the files that they bind. Without ledgers, returns neither ledgers nor
/// problems.
Evidence read_evidence(const RecordDirectory& directory);

/// Combines the hashes of several ledgers into one: the SHA-256 of the lines "NAME HASH". Returns a
/// single hash unchanged.
std::string joint_hash(std::span<const std::pair<std::string, std::string>> hashes);

}  // namespace privgrad::core
