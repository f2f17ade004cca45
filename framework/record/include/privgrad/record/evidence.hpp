// Checks that the files of a run are those that its ledgers bind by hash.
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

/// The files bound by the first line of each ledger. No file's hash depends on itself: that line
/// binds what was there before the first step (kBoundAtStart), the model names the first lines, the
/// last line of each ledger binds what the run left (files_bound_at_end()), and the page shows the
/// last lines.
inline constexpr std::string_view kBoundAtStart[] = {"facts.json", "manifest.yaml",
                                                     "privgrad.lock"};

/// \returns the names, sorted.
std::vector<std::string> files_bound_at_end(bool is_federated);

/// The same in the directory of a client that is a program of its own: the model is the server's.
std::vector<std::string> files_bound_by_client();

/// Whether the first line of a ledger is that of such a client.
bool is_of_client_alone(const nlohmann::json& facts);

/// The most of one ledger that is read.
inline constexpr std::size_t kMostLedgerBytes = std::size_t{1} << 30;

/// A ledger, and where it lies in its directory.
struct NamedLedger {
  std::string name;  ///< "ledger.jsonl", "ledgers/client-3.jsonl".
  LedgerContents contents;
};

/// The contents of a run's ledgers, and the files that differ from those that the ledgers bind. No
/// plugin is asked: whether the numbers are right is another question (verify_run()).
struct Evidence {
  std::vector<NamedLedger> ledgers;   ///< The ledgers that could be read, client by client.
  std::vector<std::string> problems;  ///< "FILE: what is wrong"; one of a file is enough.

  /// The name and the last hash of each ledger.
  std::vector<std::pair<std::string, std::string>> seals() const;
};

/// Reads all ledgers, and the files that they bind. A directory without ledgers has no evidence,
/// and no problem.
Evidence read_evidence(const RecordDirectory& directory);

/// One hash for the hashes of several ledgers: of one it is its own, of several the SHA-256 of the
/// lines "NAME HASH".
std::string joint_hash(std::span<const std::pair<std::string, std::string>> hashes);

}  // namespace privgrad::core
