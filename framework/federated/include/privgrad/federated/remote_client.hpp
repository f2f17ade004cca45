#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

/// How a client of a federated run takes part that is a program of its own.
struct RemoteClientOptions {
  std::uint32_t number = 0;  ///< Of the client, 0-based.
  std::filesystem::path
      directory;                ///< Of the client's part in one run: its ledger and what it binds.
  std::filesystem::path state;  ///< The user's own, for what must not lie there; not empty.
  std::string lock;             ///< Content of privgrad.lock.
  int threads = 1;
  /// With dp_fed_avg the server sees exact changes and adds the noise: a client takes part only if its
  /// owner says so.
  bool trusts_server = false;
};

/// One client of a federated run as a program of its own: its examples, its noise and its ledger. What
/// leaves it is a release, but with dp_fed_avg, where it is what the server is trusted with.
///
/// What it promises its examples holds whatever the server asks for, in whatever order, and however
/// often this program is killed:
/// - Steps are a sequence that is fixed in advance, each with its noise; a server chooses when they are
///   made, from which models, and how many. That is what the epsilon of the client's plan is about, in
///   full (FederatedPlan), and no step beyond is made.
/// - No step is made twice. Before an order is carried out, the state on the disk says that it is; a
///   program that finds such a state pays for its steps and its estimate, and makes none of them. An
///   order that was answered is answered with the same bytes.
/// - The server's last word closes the ledger and takes the key away. What a server that says it
///   early prevents is its own run.
/// - A directory takes part in one run. Another one would cost its epsilon anew, which is for the owner
///   of the examples to decide, and not for the server.
///
/// Threads: calls never overlap. One program at a time has a directory (its ledger is locked).
class RemoteClient {
 public:
  /// \param manifest  of the run; outlives this.
  /// \param own  where this client's own examples are; null: the manifest's data hold those of all
  ///   clients, and this one takes what the partition gives it.
  /// \throws ConfigError, PrivacyError for a run in which clients cannot be programs of their own, or
  ///   that this one does not agree to; IoError for data or state that cannot be read.
  RemoteClient(const Manifest& manifest, const ComponentUse* own,
               const RemoteClientOptions& options);
  ~RemoteClient();
  RemoteClient(const RemoteClient&) = delete;
  RemoteClient& operator=(const RemoteClient&) = delete;

  /// What it says of itself before a run, public: common_ground_of(), "facts" (PublicFacts), "client".
  nlohmann::json introduction() const;

  /// Carries out an order.
  /// \param order  anybody may have written it.
  /// \returns the answer, for the server.
  /// \throws ConfigError for an order that is none, or not of this run, and PrivacyError for one that is
  ///   refused; nothing has changed then. As Client::train() otherwise.
  std::string answer(const std::string& order);

 private:
  class Part;
  std::unique_ptr<Part> part_;
};

}  // namespace privgrad::core
