#include "federation.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/record/evidence.hpp"
#include "privgrad/record/site_receipt.hpp"
#include "privgrad/value.hpp"
#include "run_files.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

/// The inputs of the plan that the server and all clients share: facts.json without "account",
/// which belongs to one site.
struct SharedFacts {
  Json manifest, facts;
  bool operator==(const SharedFacts&) const = default;
};

SharedFacts shared_with_clients(const RecordDirectory& directory, const Catalog& catalog) {
  Json facts = object_of(directory, "facts.json");
  facts.erase("account");
  return {shared_by_sites(manifest_of(directory, catalog, DataFiles::may_be_missing)),
          std::move(facts)};
}

/// The parts of a client's ledger that the client's receipt repeats.
struct ClientLedger {
  std::string last_hash;
  std::uint64_t steps = 0;
  Json account;
};

class Federation {
 public:
  Federation(const RecordDirectory& directory, const Catalog& catalog, const Plan& plan,
             const Json& summary, Verification& result)
      : directory_(directory),
        catalog_(catalog),
        plan_(plan),
        result_(result),
        shared_(shared_with_clients(directory, catalog)) {
    const Json& remote = summary.at("federated").at("remote");
    run_ = remote.at("run");
    ground_ = remote.at("ground");
    status_ = summary.at("status");
    // Otherwise the server could state another manifest's ground here, and show its receipts.
    Json common{{"manifest", sha256_hex(shared_.manifest.dump())}};
    for (const char* part : {"protocol", "program", "plugins"})
      common[part] = remote.value(part, Json());
    if (hash_of_ground(std::move(common), shared_facts_of(plan)) != ground_)
      problem("summary.json: federated.remote.ground is not of this manifest and these facts");
  }

  /// Verifies the directory of a client.
  void check_directory(const std::filesystem::path& path) {
    const RecordDirectory directory(path);
    const Verification own = verify_run(directory, catalog_);
    const Evidence evidence = read_evidence(directory);
    const std::string where = path.string() + ": ";
    if (!own.verified() || evidence.ledgers.size() != 1)
      return problem(where + (own.verified() ? "has no ledger" : own.problems.front()));
    const Json& first = evidence.ledgers.front().contents.facts;
    if (first.value("run", Json()) != run_ || first.value("ground", Json()) != ground_)
      return problem(where + "is not of a client of this run");
    if (shared_with_clients(directory, catalog_) != shared_)
      return problem(where + "has another manifest or other facts than the server");
    const Json& close = evidence.ledgers.front().contents.close;
    const std::string ended = close.at("status");
    if (ended != status_)
      return problem(where + "ended as " + ended + ", but the server says " + status_);
    const auto client = first.at("client").get<std::size_t>();
    if (client >= plan_.federated->clients.size())
      return problem(where + "is of a client that the run does not have");
    const ClientLedger ledger{.last_hash = evidence.ledgers.front().contents.last_hash,
                              .steps = close.at("steps_done"),
                              .account = first.value("account", Json())};
    if (!ledgers_.emplace(client, ledger).second)
      return problem(where + "is another directory of client " + std::to_string(client));
    constexpr double kNoBound = std::numeric_limits<double>::infinity();
    const double epsilon = own.epsilon.value_or(kNoBound);
    if (result_.epsilon) result_.epsilon = std::max(*result_.epsilon, epsilon);
    note(client,
         "its directory " + path.string() + " is verified: epsilon " + format_number(epsilon));
  }

  /// Compares a client's receipt, if there is one, with the run and the client's directory.
  void check_receipt(std::uint32_t client) {
    const std::string name = receipt_of_client(client);
    const auto ledger = ledgers_.find(client);
    const bool has_directory = ledger != ledgers_.end();
    if (!directory_.has(name)) {
      if (!has_directory) {
        note(client,
             "nothing here proves that it charged a ledger: there is neither its receipt (" + name +
                 ") nor its directory");
      }
      return;
    }
    try {
      const auto receipt = SiteReceipt::of(directory_.read(name, kMostReceiptBytes));
      std::string why = receipt.why_not(run_, ground_, client, status_);
      if (why.empty() && receipt.steps > plan_.federated->clients[client].plan->affordable_steps)
        why = "says that more steps were charged than are planned";
      if (why.empty() && has_directory && ledger->second.last_hash != receipt.ledger)
        why = "is for another ledger than that of the client's directory";
      if (why.empty() && has_directory &&
          (ledger->second.steps != receipt.steps || ledger->second.account != receipt.account))
        why = "has other steps or another account than the ledger in the client's directory";
      if (!why.empty()) return problem(name + ": " + why);
      ++receipts_;
      if (has_directory)
        return note(client, "its receipt, by the key " + receipt.signer + ", agrees with it");
      note(client,
           "the key " + receipt.signer + " signed that its ledger, whose last line has the hash " +
               receipt.ledger + ", charges " + std::to_string(receipt.steps) + " steps" +
               paid_by(receipt.account) + "; anyone can make a key, so compare it with the site's");
    } catch (const ConfigError& failure) {
      problem(name + ": " + failure.what());
    }
  }

  /// Puts a note first that counts the verified directories and the receipts.
  void summarize() {
    const std::size_t all = plan_.federated->clients.size(), proved = ledgers_.size();
    result_.notes.insert(result_.notes.begin(),
                         "of " + std::to_string(all) + " clients, " + std::to_string(proved) +
                             " prove by their directories what they charged, and " +
                             std::to_string(receipts_) + " sign it");
  }

 private:
  static std::string paid_by(const Json& account) {
    const Json opened = account.is_object() ? account.value("opened", Json()) : Json();
    return opened.is_string() ? ", paid by the account that was opened with the hash " +
                                    one_line(opened.get<std::string>(), 100)
                              : "";
  }

  void problem(std::string what) { result_.problems.push_back(std::move(what)); }
  void note(std::size_t client, const std::string& what) {
    result_.notes.push_back("client " + std::to_string(client) + ": " + what);
  }

  const RecordDirectory& directory_;
  const Catalog& catalog_;
  const Plan& plan_;
  Verification& result_;
  SharedFacts shared_;
  std::string run_, ground_, status_;
  std::map<std::size_t, ClientLedger> ledgers_;  // by client, from clients' directories
  std::size_t receipts_ = 0;
};

}  // namespace

void check_federation(const RecordDirectory& directory, const Catalog& catalog, const Plan& plan,
                      const Json& summary, std::span<const std::filesystem::path> clients,
                      Verification& result) {
  Federation federation(directory, catalog, plan, summary, result);
  for (const std::filesystem::path& path : clients) federation.check_directory(path);
  for (std::uint32_t client = 0; client < plan.federated->clients.size(); ++client)
    federation.check_receipt(client);
  federation.summarize();
}

}  // namespace privgrad::core
