// The receipt of a client of a federated run for its part in the run, signed by its site.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace privgrad::core {

/// What a site says of its client's part in a run after the client's ledger was closed. Everything
/// in it is public: the server that receives it knows all of it but the hash of the ledger, which
/// covers a commitment to the data, and the names of the account.
struct SiteReceipt {
  std::string run, ground;  ///< As in the server's orders.
  std::uint32_t client = 0;
  std::string status;       ///< How the run ended, as the ledger says.
  std::string ledger;       ///< The hash of the ledger's last line.
  std::uint64_t steps = 0;  ///< The steps that the ledger charges.
  nlohmann::json account;   ///< Reservation::facts(), or null.
  std::string signer;       ///< The public key of the site, 64 hex digits.

  /// The receipt without a signature and signer, and its inverse.
  /// \throws ConfigError if it is not a receipt.
  nlohmann::json body() const;
  static SiteReceipt of_body(const nlohmann::json& body);

  /// Signs the receipt.
  /// \returns its text.
  /// \throws as sign().
  std::string signed_by(const std::filesystem::path& key) const;

  /// \param text  of unknown origin.
  /// \throws ConfigError if it is not a receipt, or if its signature is not valid.
  static SiteReceipt of(std::string_view text);

  /// \returns why this is not the receipt of a client of a run that has ended so; "" if it is.
  std::string why_not(std::string_view of_run, std::string_view of_ground, std::uint32_t of_client,
                      std::string_view with_status) const;
};

/// The hash on which the server and the clients of a run agree; orders, answers and receipts
/// contain it.
/// \param common  "protocol" and the hashes "program", "plugins" and "manifest" (the hash of
///   shared_by_sites()).
/// \param facts  PublicFacts without the account of a site.
std::string hash_of_ground(nlohmann::json common, const nlohmann::json& facts);

/// The name of a client's receipt in the directory of the server.
std::string receipt_of_client(std::uint32_t client);

/// The longest receipt that is read, in bytes.
inline constexpr std::size_t kMostReceiptBytes = 1 << 16;

}  // namespace privgrad::core
