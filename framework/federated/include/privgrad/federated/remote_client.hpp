// A client of a federated run as a program of its own, and its promises to its examples' owner.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

/// How a client that is a program of its own takes part in a federated run.
struct RemoteClientOptions {
  std::uint32_t number = 0;         ///< The client's, 0-based.
  std::filesystem::path directory;  ///< For its part in one run: its ledger and the bound files.
  std::filesystem::path state;      ///< The user's, for files that must not lie there; not empty.
  std::string lock;                 ///< The content of privgrad.lock.
  int threads = 1;
  /// With dp_fed_avg the server sees exact changes and adds the noise: a client takes part only if
  /// its owner says so.
  bool trusts_server = false;
};

/// One client of a federated run as a program of its own: its examples, its noise and its ledger.
/// Everything that leaves it is a release, except with dp_fed_avg, where the server is trusted with
/// it.
///
/// Its promise to its examples holds whatever the server asks for, in whatever order, and however
/// often this program is killed:
/// - Steps are a sequence that is fixed in advance, each with its noise; a server chooses when they
///   are made, from which models, and how many. The epsilon of the client's plan covers this
///   sequence in full (FederatedPlan), and no step beyond is made.
/// - No step is made twice. Before an order is carried out, the state on the disk says that it is;
///   a program that finds such a state pays for its steps and its estimate, and makes none of them.
///   An order that was answered is answered with the same bytes.
/// - The server's last word closes the ledger and takes the key away. A server that says it early
///   prevents its own run, and nothing else.
/// - A directory takes part in one run. Another one would cost its epsilon anew, which is for the
///   owner of the examples to decide, and not for the server.
///
/// Threads: calls never overlap. One program at a time has a directory (its ledger is locked).
class RemoteClient {
 public:
  /// \param manifest  the run's; outlives this.
  /// \param own  the source of this client's own examples; null: the manifest's data hold those of
  ///   all clients, and this one takes its share of the partition.
  /// \throws ConfigError, PrivacyError for a run in which clients cannot be programs of their own,
  ///   or to which this one does not agree; IoError for data or state that cannot be read.
  RemoteClient(const Manifest& manifest, const ComponentUse* own,
               const RemoteClientOptions& options);
  ~RemoteClient();
  RemoteClient(const RemoteClient&) = delete;
  RemoteClient& operator=(const RemoteClient&) = delete;

  /// Its introduction to the server before a run, public: common_ground_of(), "facts"
  /// (PublicFacts), "client".
  nlohmann::json introduction() const;

  /// Carries out an order.
  /// \param order  anybody may have written it.
  /// \returns the answer, for the server.
  /// \throws ConfigError for a text that is no order, or not of this run, and PrivacyError for an
  ///   order that is refused; nothing has changed then. As Client::train() otherwise.
  std::string answer(const std::string& order);

 private:
  class Part;
  std::unique_ptr<Part> part_;
};

}  // namespace privgrad::core
