// A client of a federated run as a separate program, with its promises to the owner of its
// examples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

struct RemoteClientOptions {
  std::uint32_t number = 0;  ///< The number of the client, 0-based.
  /// The folder for the client's part in one run: its ledger, and the files that the ledger hashes.
  std::filesystem::path directory;
  /// The user's state folder, for files that must not be in the directory; not empty.
  std::filesystem::path state;
  std::string lock;  ///< The content of privgrad.lock.
  int threads = 1;
  /// With dp_fed_avg the server sees exact changes and adds the noise, so a client takes part only
  /// if its owner agrees.
  bool trusts_server = false;
  /// HOST:PORT of its server, for a site's policy that names the servers; "" if it is not known.
  std::string server = "";
  /// The site's key (make_signing_key()), which signs the receipt for the server; "" for none.
  std::filesystem::path key = {};
};

/// One client of a federated run as a separate program: its examples, noise and ledger. Everything
/// that leaves the program is a release, except with dp_fed_avg, where the server is trusted.
///
/// It promises the following to the owner of its examples, whatever the server orders in whatever
/// sequence, and however often this program is killed:
/// - The sequence of steps is fixed in advance, each with its noise; the server chooses when the
///   steps are made, from which models, and how many. The epsilon of the client's plan covers the
///   whole sequence (FederatedPlan), and no further step is made.
/// - No step is made twice. Before the program executes an order, it records the order in its state
///   on the disk. If it is restarted from such a state, it pays for the steps and the estimate
///   without making them. A repeated order gets the same answer, byte for byte.
/// - The server's farewell closes the ledger and deletes the key. A server that sends the farewell
///   early only stops its own run.
/// - A directory takes part in one run. A second run would cost its epsilon again, and only the
///   owner of the examples may decide this, not the server.
/// - If its manifest names an account, the first order reserves the cost of the whole plan there,
///   or is refused. The whole reservation counts as spent: the server, which has seen the releases,
///   chose when they end, and a program that begins anew for each order cannot exclude that a copy
///   continues. A copy of its state and directory that is continued elsewhere makes releases of its
///   own, for which the account counts the plan only once: no program can see such a copy.
///
/// Threads: calls must not overlap. Only one program at a time uses a directory (its ledger is
/// locked).
class RemoteClient {
 public:
  /// \param manifest  the manifest of the run; outlives this.
  /// \param own  the source of this client's own examples; null: the manifest's data contains the
  ///   examples of all clients, and this client uses its share of the partition.
  /// \throws ConfigError, PrivacyError for a run whose clients cannot be separate programs, or that
  ///   this client or a policy of its site does not accept; IoError for unreadable data or state.
  RemoteClient(const Manifest& manifest, const ComponentUse* own,
               const RemoteClientOptions& options);
  ~RemoteClient();
  RemoteClient(const RemoteClient&) = delete;
  RemoteClient& operator=(const RemoteClient&) = delete;

  /// The client's introduction to the server before a run, all public: common_ground_of(), "facts"
  /// (PublicFacts), "client".
  nlohmann::json introduction() const;

  /// Carries out an order.
  /// \param order  not trusted.
  /// \returns the answer for the server.
  /// \throws ConfigError for a text that is not an order, or is an order of another run;
  ///   PrivacyError for an order that is refused. Nothing has changed then. Also as
  ///   Client::train().
  std::string answer(const std::string& order);

  /// Whether answer() failed after it had accepted an order. Such an error may name files, accounts
  /// and rows of the site, which the server must not read; other errors are about the order.
  bool failed() const noexcept;

 private:
  class Part;
  std::unique_ptr<Part> part_;
};

}  // namespace privgrad::core
