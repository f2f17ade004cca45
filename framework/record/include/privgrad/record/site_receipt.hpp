// The receipt that a site signs for its client's part in a federated run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace privgrad::core {

/// A site's statement about its client's part in a run, made after the client's ledger was closed.
/// All members are public. The server that receives them already knows them, except the hash of the
/// ledger, which covers a commitment to the data, and the names of the account.
struct SiteReceipt {
  std::string run, ground;  ///< As in the server's orders.
  std::uint32_t client = 0;
  std::string status;       ///< How the run ended, as the ledger says.
  std::string ledger;       ///< The hash of the ledger's last line.
  std::uint64_t steps = 0;  ///< The steps that the ledger charges.
  nlohmann::json account;   ///< Reservation::facts(), or null.
  std::string signer;       ///< The public key of the site, 64 hex digits.

  /// The receipt as JSON, without signature and signer.
  nlohmann::json body() const;
  /// The inverse of body().
  /// \throws ConfigError if `body` is not a receipt.
  static SiteReceipt of_body(const nlohmann::json& body);

  /// \returns the text of the receipt with a signature by `key`.
  /// \throws the errors of sign().
  std::string signed_by(const std::filesystem::path& key) const;

  /// Reads a receipt and checks its signature.
  /// \param text  of unknown origin.
  /// \throws ConfigError if `text` is not a receipt, or if its signature is not valid.
  static SiteReceipt of(std::string_view text);

  /// \returns why this is not the receipt of client `of_client` for a run that ended as
  ///   `with_status`; "" if it is.
  std::string why_not(std::string_view of_run, std::string_view of_ground, std::uint32_t of_client,
                      std::string_view with_status) const;
};

/// The hash on which the server and the clients of a run agree; orders, answers and receipts
/// contain it.
/// \param common  "protocol" and the hashes "program", "plugins" and "manifest" (the hash of
///   shared_by_sites()).
/// \param facts  PublicFacts without a site's account.
std::string hash_of_ground(nlohmann::json common, const nlohmann::json& facts);

/// The name of a client's receipt in the server's run directory.
std::string receipt_of_client(std::uint32_t client);

inline constexpr std::size_t kMostReceiptBytes = 1 << 16;

}  // namespace privgrad::core
