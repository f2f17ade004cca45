#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "privgrad/catalog.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/verify/verify.hpp"

namespace privgrad::calls {

/// What `privgrad verify` is asked for.
struct VerifyRequest {
  std::filesystem::path directory;    ///< Of a run, or of a study, which takes none of the rest.
  std::optional<std::size_t> client;  ///< Of a run with a ledger for each: what holds for this one.
  bool data = false;                  ///< Read the training data, and compare it.
  bool audit = false;                 ///< Make the audit of audit.json again.
  std::optional<std::filesystem::path> opening;  ///< Of the commitment to the data.
  std::optional<std::filesystem::path> trusted;  ///< The public key whose signature is demanded.
  std::optional<std::filesystem::path> sign;     ///< The key that signs what verifies.
  bool new_key = false;                          ///< Make that key first.
};

struct Verified {
  core::Verification result;
  /// Whose signature there is, {"public_key", "trusted"}, or null; nothing: of a study.
  nlohmann::json signature;
};

/// Checks a run or a study by its files, and leaves signature.json in the directory if that is asked
/// for and it verifies.
/// \param directory  of the request, opened.
/// \throws IoError if it holds neither, or data or a key cannot be read or written; ConfigError.
Verified verify(const VerifyRequest& request, const core::RecordDirectory& directory,
                const Catalog& catalog);

/// As `privgrad verify --json` prints it.
nlohmann::json to_json(const Verified& verified);

}  // namespace privgrad::calls
