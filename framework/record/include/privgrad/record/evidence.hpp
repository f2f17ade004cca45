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

/// The files whose hashes are in the first line of each ledger. The hashes do not depend on each
/// other in a circle: the first lines cover the files from before the first step (kBoundAtStart),
/// the model contains the hashes of the first lines, the last line of each ledger covers the files
/// of the finished run (files_bound_at_end()), and the page shows the hashes of the last lines.
inline constexpr std::string_view kBoundAtStart[] = {"facts.json", "manifest.yaml",
                                                     "privgrad.lock"};

/// \returns the names, sorted.
std::vector<std::string> files_bound_at_end(bool is_federated);

/// Returns these names for the directory of a client that is a separate program, where the model is
/// missing because the server has it.
std::vector<std::string> files_bound_by_client();

/// Whether the first line of a ledger was written by a client that is a separate program.
bool is_of_client_alone(const nlohmann::json& facts);

/// The longest ledger that is read.
inline constexpr std::size_t kMostLedgerBytes = std::size_t{1} << 30;

/// A ledger, and its place in its directory.
struct NamedLedger {
  std::string name;  ///< "ledger.jsonl", "ledgers/client-3.jsonl".
  LedgerContents contents;
};

/// The contents of a run's ledgers, and the files that do not match the hashes in them. No plugin
/// is involved: verify_run() checks whether the numbers are right.
struct Evidence {
  /// The ledgers that could be read, in the order of the clients.
  std::vector<NamedLedger> ledgers;
  std::vector<std::string> problems;  ///< "FILE: what is wrong"; at most one per file is enough.

  /// The name and the last hash of each ledger.
  std::vector<std::pair<std::string, std::string>> seals() const;
};

/// Reads all ledgers, and the files that they bind. A directory without ledgers gives no evidence
/// and no problem.
Evidence read_evidence(const RecordDirectory& directory);

/// Combines the hashes of several ledgers into one: the SHA-256 of the lines "NAME HASH". Returns a
/// single hash unchanged.
std::string joint_hash(std::span<const std::pair<std::string, std::string>> hashes);

}  // namespace privgrad::core
