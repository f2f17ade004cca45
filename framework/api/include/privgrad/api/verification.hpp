// `privgrad verify` as a function: checks a run or a study by its files, and signs it if asked.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "privgrad/catalog.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/verify/verify.hpp"

namespace privgrad::api {

/// The arguments of `privgrad verify`.
struct VerifyRequest {
  std::filesystem::path directory;    ///< A run, or a study, which takes none of the rest.
  std::optional<std::size_t> client;  ///< Verify this one, in a run with a ledger per client.
  bool data = false;                  ///< Read the training data, and compare it.
  bool audit = false;                 ///< Repeat the audit of audit.json.
  std::optional<std::filesystem::path> opening;  ///< Opens the commitment to the data.
  std::optional<std::filesystem::path> trusted;  ///< The public key whose signature is demanded.
  std::optional<std::filesystem::path> sign;     ///< The key that signs what verifies.
  bool new_key = false;                          ///< Create that key first.
};

struct Verified {
  core::Verification result;
  /// The signer, {"public_key", "trusted"}, or null if unsigned; nothing for a study.
  nlohmann::json signature;
};

/// Checks a run or a study by its files, and writes signature.json into the directory if a
/// signature is asked for and it verifies.
/// \param directory  the one of the request, opened.
/// \throws IoError if it holds neither, or data or a key cannot be read or written; ConfigError.
Verified verify(const VerifyRequest& request, const core::RecordDirectory& directory,
                const Catalog& catalog);

/// As `privgrad verify --json` prints it.
nlohmann::json to_json(const Verified& verified);

}  // namespace privgrad::api
