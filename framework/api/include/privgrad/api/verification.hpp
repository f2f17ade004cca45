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
  /// If the directory is a server's, and its clients were separate programs: their directories.
  std::vector<std::filesystem::path> clients = {};
  bool data = false;   ///< Whether to read the training data, and compare it.
  bool audit = false;  ///< Whether to repeat the audit of audit.json.
  std::optional<std::filesystem::path> opening;  ///< Opens the commitment to the data.
  std::optional<std::filesystem::path> trusted;  ///< The public key of the required signature.
  std::optional<std::filesystem::path> sign;     ///< The key with which a verified run is signed.
  bool new_key = false;                          ///< Whether to create that key first.
};

struct Verified {
  core::Verification result;
  /// The signer, {"public_key", "trusted"}; null for an unsigned run, and for a study.
  nlohmann::json signature;
};

/// Checks a run or a study from its files, and writes signature.json into the directory if a
/// signature is requested and the run verifies.
/// \param directory  the directory of the request, opened.
/// \throws IoError if the directory contains neither a run nor a study, or if data or a key cannot
///   be read or written; ConfigError.
Verified verify(const VerifyRequest& request, const core::RecordDirectory& directory,
                const Catalog& catalog);

/// Returns the output of `privgrad verify --json`.
nlohmann::json to_json(const Verified& verified);

}  // namespace privgrad::api
