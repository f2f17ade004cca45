// `privgrad verify` as a function: checks a run or a study from its files, and signs it on request.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/verify/verify.hpp"

namespace privgrad::api {

/// The arguments of `privgrad verify`.
struct VerifyRequest {
  /// The directory of a run or a study. For a study, the other members must not be set.
  std::filesystem::path directory;
  std::optional<std::size_t> client;  ///< The client to verify, in a run with a ledger per client.
  /// The directories of clients that were separate programs, if `directory` is their server's.
  std::vector<std::filesystem::path> clients = {};
  bool data = false;   ///< Whether to compare the training data with the commitment in the ledger.
  bool audit = false;  ///< Whether to repeat the audit of audit.json.
  std::optional<std::filesystem::path> opening;  ///< The file that opens the commitment.
  std::optional<std::filesystem::path> trusted;  ///< The public key of the required signature.
  std::optional<std::filesystem::path> sign;     ///< The key with which a verified run is signed.
  bool new_key = false;                          ///< Whether to create the key `sign` first.
};

struct Verified {
  core::Verification result;
  /// The signer, {"public_key", "trusted"}; null for an unsigned run, and for a study.
  nlohmann::json signature;
};

/// Checks a run or a study from its files, and writes signature.json into the directory if a
/// signature is requested and the run verifies.
/// \param directory  `request.directory`, opened.
/// \throws IoError if the directory contains neither a run nor a study, or if data or a key cannot
///   be read or written; ConfigError for an option without an effect and for a signature of a run
///   without a ledger; otherwise like core::verify_run() and core::verify_data().
Verified verify(const VerifyRequest& request, const core::RecordDirectory& directory,
                const Catalog& catalog);

/// Returns the output of `privgrad verify --json`.
nlohmann::json to_json(const Verified& verified);

}  // namespace privgrad::api
