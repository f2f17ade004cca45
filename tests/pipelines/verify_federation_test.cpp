// A federation whose clients are separate programs: each pays from the account of its own site, and
// signs a receipt for the server, whose directory verifies with its clients' directories.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <random>
#include <thread>

#include "privgrad/federated/remote_client.hpp"
#include "privgrad/federated/remote_clients.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/record/evidence.hpp"
#include "privgrad/record/signature.hpp"
#include "privgrad/record/site_receipt.hpp"
#include "privgrad/trust/data_account.hpp"
#include "train.hpp"
#include "verify.hpp"

using namespace privgrad;

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

// Twelve full batches with noise multiplier 20 are 0.015-zCDP: epsilon 0.68 at delta 1e-5. Two such
// runs cost 0.99, and an account holds 0.8.
const std::string kManifest = R"(privgrad: 1
mode: release
data: {kind: synthetic, rows: 80, dimensions: 3, size: 160}
model: {kind: linear}
sampler: full_batch
optimizer: {kind: sgd}
schedules: {noise_multiplier: 20, clip_norm: 1.0, learning_rate: #}
privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: zcdp@}
steps: 12
federated:
  {clients: 2, rounds: 3, local_iterations: 4, partition: {kind: by_column, column: 0, values: [0, 1]},
   shards: given, sizes: [80, 80]}
)";

std::string manifest_with(const std::string& account, const std::string& rate = "0.5") {
  std::string text = kManifest;
  text.replace(text.find('#'), 1, rate);
  return text.replace(text.find('@'), 1, account);
}

/// A machine with one client: its manifest, its account, its key.
class Site {
 public:
  Site(const fs::path& folder, std::uint32_t number, const std::string& rate = "0.5")
      : folder_(folder), number_(number) {
    fs::create_directories(folder);
    if (!fs::exists(account())) {
      core::DataAccount::open(account(), {.name = "rows",
                                          .adjacency = Adjacency::zero_out,
                                          .unit = PrivacyUnit::example,
                                          .target_epsilon = 0.8,
                                          .target_delta = 1e-5,
                                          .accountant = "kind: zcdp\n"});
      core::make_signing_key(key());
    }
    write_file(folder / "m.yaml", manifest_with(", account: account.jsonl", rate));
    manifest_ =
        std::make_unique<core::Manifest>(core::load_manifest(folder / "m.yaml", {}, house()));
  }

  fs::path account() const { return folder_ / "account.jsonl"; }
  fs::path key() const { return folder_ / "site.key"; }
  fs::path part(const std::string& name) const { return folder_ / name; }

  /// Begins the client's program, in a new directory or in one that it used before.
  std::unique_ptr<core::RemoteClient> begin(const std::string& name) const {
    return std::make_unique<core::RemoteClient>(
        *manifest_, &manifest_->data,
        core::RemoteClientOptions{.number = number_,
                                  .directory = part(name),
                                  .state = folder_ / (name + "-state"),
                                  .lock = "",
                                  .key = key()});
  }

  core::DataAccount read_account() const { return core::DataAccount(account()); }

 private:
  fs::path folder_;
  std::uint32_t number_;
  std::unique_ptr<core::Manifest> manifest_;
};

/// Clients whose programs begin anew for each order, as SuperNodes of Flower do.
class Sites final : public core::RemoteClients {
 public:
  Sites(const std::vector<const Site*>& sites, std::string name)
      : sites_(sites), name_(std::move(name)) {}
  std::vector<std::optional<std::string>> ask(
      std::span<const core::OrderToClient> orders) override {
    std::vector<std::optional<std::string>> answers;
    for (const core::OrderToClient& order : orders) {
      answers.emplace_back();
      if (client_of_first_order == order.client && first_order.empty()) first_order = order.order;
      if (hears && !hears(order)) continue;
      try {
        answers.back() = sites_[order.client]->begin(name_)->answer(order.order);
        if (changes) changes(*answers.back());
      } catch (const Error& problem) {
        problems.emplace_back(problem.what());
      }
    }
    return answers;
  }
  void refused(std::uint32_t, const std::string& why) override { problems.push_back(why); }

  std::function<bool(const core::OrderToClient&)> hears;  ///< Whether an order arrives.
  std::function<void(std::string&)> changes;              ///< Changes an answer on its way.
  std::vector<std::string> problems;
  std::uint32_t client_of_first_order = 0;
  std::string first_order;

 private:
  std::vector<const Site*> sites_;
  std::string name_;
};

class Federation {
 public:
  explicit Federation(const std::string& rate = "0.5") : rate_(rate) {
    write_file(dir_.path() / "m.yaml", manifest_with("", rate));
  }

  /// Makes a run. \returns the directory of the server.
  fs::path run(Sites& clients, const std::string& name) {
    const core::Manifest manifest = core::load_manifest(dir_.path() / "m.yaml", {}, house());
    const core::PublicFacts facts =
        core::facts_from_json(sites[0].begin(name)->introduction().at("facts").dump());
    const core::Plan plan = core::make_plan(manifest, facts);
    core::RunOptions options{
        .directory = dir_.path() / name, .lock = "", .threads = 1, .on_progress = {}};
    options.clients = &clients;
    core::run(plan, options);
    return options.directory;
  }

  fs::path run(const std::string& name) {
    Sites clients({&sites[0], &sites[1]}, name);
    const fs::path directory = run(clients, name);
    CHECK(verify::all_of(clients.problems).empty());
    return directory;
  }

 private:
  TempDir dir_;
  std::string rate_;

 public:
  std::vector<Site> sites = [&] {
    std::vector<Site> made;
    made.emplace_back(dir_.path() / "alpha", 0, rate_);
    made.emplace_back(dir_.path() / "beta", 1, rate_);
    return made;
  }();
};

/// The orders to client 0 of a whole run, which any new part of this client may receive.
struct Heard {
  Heard() {
    Federation federation;
    Sites clients({&federation.sites[0], &federation.sites[1]}, "heard");
    clients.hears = [&](const core::OrderToClient& order) {
      if (order.client == 0) orders.push_back(order.order);
      return true;
    };
    federation.run(clients, "heard");
    REQUIRE(orders.size() == 4);
  }
  std::vector<std::string> orders;  ///< The last of them is the farewell.
};

/// The size of the largest file below a folder.
std::uintmax_t bytes_below(const fs::path& folder) {
  std::uintmax_t most = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) most = std::max(most, entry.file_size());
  return most;
}

core::Verification verified(const fs::path& server, const std::vector<fs::path>& clients = {}) {
  return core::verify_run(core::RecordDirectory(server), house(), std::nullopt, clients);
}

std::string problems_of(const core::Verification& verification) {
  return verify::all_of(verification.problems);
}
std::string notes_of(const core::Verification& verification) {
  return verify::all_of(verification.notes);
}

}  // namespace

TEST_CASE("clients that are separate programs pay in full from the accounts of their sites",
          "[federated][account][privacy]") {
  Federation federation;
  federation.run("first");
  for (const Site& site : federation.sites) {
    const core::DataAccount account = site.read_account();
    REQUIRE(account.entries().size() == 1);
    const core::AccountEntry& entry = account.entries().front();
    CHECK(entry.status == "completed");
    CHECK(entry.settled == entry.reserved);
    const core::Evidence evidence = core::read_evidence(core::RecordDirectory(site.part("first")));
    REQUIRE(evidence.ledgers.size() == 1);
    CHECK(evidence.ledgers.front().contents.facts.at("account").at("reservation") == entry.id);
    CHECK(evidence.ledgers.front().contents.facts.at("account").at("opened") ==
          account.first_hash());
    // However often the program began anew: open, reserve, begin, resume, settle.
    CHECK(verify::lines_of(site.account()).size() == 5);
  }
  // The accounts pay for no second run: its first order is refused, and nothing is charged.
  Sites again({&federation.sites[0], &federation.sites[1]}, "second");
  federation.run(again, "second");
  REQUIRE(again.problems.size() >= 2);
  CHECK_THAT(again.problems.front(), ContainsSubstring("does not pay for this run"));
  for (const Site& site : federation.sites) {
    CHECK(site.read_account().entries().size() == 1);
    CHECK_FALSE(fs::exists(site.part("second") / "ledgers"));
  }
}

TEST_CASE("a client whose account vanishes at its farewell keeps no key, and counts in full",
          "[federated][account][privacy]") {
  const Heard heard;
  const std::vector<std::string>& orders = heard.orders;
  const TempDir dir;
  const Site site(dir.path() / "alpha", 0);
  const fs::path state = dir.path() / "alpha/part-state", moved = dir.path() / "moved.jsonl";
  {
    const auto client = site.begin("part");
    for (std::size_t i = 0; i < 3; ++i) (void)client->answer(orders[i]);
    const std::uintmax_t before = bytes_below(state);
    fs::rename(site.account(), moved);
    CHECK_THROWS_AS(client->answer(orders[3]), IoError);
    // The receipt and a few texts are left of the state; no key, answer or model.
    CHECK(bytes_below(state) < before / 2);
  }
  fs::rename(moved, site.account());
  CHECK_FALSE(site.read_account().entries().at(0).settled.has_value());
  CHECK(site.read_account().entries().at(0).cost() == site.read_account().entries().at(0).reserved);
  // Started again, it settles, and writes the receipt if that was lost.
  const std::string receipt = read_file(site.part("part") / "receipt.json");
  fs::remove(site.part("part") / "receipt.json");
  const auto again = site.begin("part");
  CHECK_THROWS_WITH(again->answer(orders[0]), ContainsSubstring("the run is finished"));
  CHECK(again->answer(orders[3]) == receipt);
  CHECK(site.read_account().entries().at(0).settled ==
        site.read_account().entries().at(0).reserved);
}

TEST_CASE("a client that was interrupted at its farewell ends, though its account was closed since",
          "[federated][account][privacy]") {
  Heard heard;
  const TempDir dir;
  const Site site(dir.path() / "alpha", 0);
  const fs::path bound = site.part("part") / "schedules.json", moved = dir.path() / "moved";
  {
    const auto client = site.begin("part");
    for (std::size_t i = 0; i < 3; ++i) (void)client->answer(heard.orders[i]);
    fs::rename(bound, moved);  // it has recorded that it leaves, and cannot close its ledger
    CHECK_THROWS_WITH(client->answer(heard.orders[3]), ContainsSubstring("has vanished"));
  }
  fs::rename(moved, bound);
  core::DataAccount account(site.account());
  const auto filter = house().create<Accountant>("zcdp", {});
  account.settle(*filter, account.entries().at(0).id, account.entries().at(0).reserved, "closed");
  const auto again = site.begin("part");
  CHECK(bytes_below(dir.path() / "alpha/part-state") < 800);
  CHECK(again->answer(heard.orders[3]) == read_file(site.part("part") / "receipt.json"));
  CHECK(site.read_account().entries().at(0).status == "closed");
}

TEST_CASE("a part that cannot begin gives its reservation back", "[federated][account]") {
  Heard heard;
  const TempDir dir;
  const Site site(dir.path() / "alpha", 0);
  write_file(dir.path() / "alpha/file", "");
  for (int i = 0; i < 3; ++i)
    CHECK_THROWS_AS(site.begin("file/part")->answer(heard.orders[0]), IoError);
  const core::DataAccount account = site.read_account();
  CHECK(account.entries().size() == 3);
  for (const core::AccountEntry& entry : account.entries()) CHECK(entry.status == "given back");
  CHECK_NOTHROW(site.begin("part")->answer(heard.orders[0]));
}

TEST_CASE("the account is the file that its link led to when the manifest was read",
          "[federated][account][privacy]") {
  Heard heard;
  const TempDir dir;
  const Site site(dir.path() / "alpha", 0);
  const fs::path copy = dir.path() / "copy.jsonl", link = dir.path() / "alpha/link.jsonl";
  fs::copy_file(site.account(), copy);
  fs::create_symlink(site.account(), link);
  const core::Manifest manifest =
      core::parse_manifest(manifest_with(", account: link.jsonl"), dir.path() / "alpha/m.yaml", {},
                           house(), core::DataFiles::are_there);
  core::RemoteClient client(
      manifest, &manifest.data,
      {.number = 0, .directory = dir.path() / "part", .state = dir.path() / "state", .lock = ""});
  fs::remove(link);
  fs::create_symlink(copy, link);
  (void)client.answer(heard.orders[0]);
  CHECK(site.read_account().entries().size() == 1);
  CHECK(core::DataAccount(copy).entries().empty());
}

TEST_CASE("an account that cannot be read, or is not of whoever is charged, is refused",
          "[federated][account][privacy]") {
  const TempDir dir;
  const Site site(dir.path() / "alpha", 0);
  fs::rename(site.account(), dir.path() / "elsewhere");
  const core::Manifest missing =
      core::parse_manifest(manifest_with(", account: account.jsonl"), dir.path() / "alpha/m.yaml",
                           {}, house(), core::DataFiles::may_be_missing);
  const core::RemoteClientOptions options{
      .number = 0, .directory = dir.path() / "part", .state = dir.path() / "state", .lock = ""};
  CHECK_THROWS_AS(core::RemoteClient(missing, &missing.data, options), IoError);
  fs::rename(dir.path() / "elsewhere", site.account());
  // The server of fed_avg is not charged.
  Federation federation;
  Sites clients({&federation.sites[0], &federation.sites[1]}, "part");
  const core::Manifest own = core::load_manifest(dir.path() / "alpha/m.yaml", {}, house());
  core::PublicFacts facts =
      core::facts_from_json(federation.sites[0].begin("part")->introduction().at("facts").dump());
  facts.account = core::AccountFacts{};
  const core::Plan plan = core::make_plan(own, facts);
  core::RunOptions server{
      .directory = dir.path() / "run", .lock = "", .threads = 1, .on_progress = {}};
  server.clients = &clients;
  CHECK_THROWS_AS(core::run(plan, server), PrivacyError);
  CHECK(site.read_account().entries().empty());
}

TEST_CASE("a server's directory verifies, and says what its clients prove", "[federated][verify]") {
  Federation federation;
  const fs::path server = federation.run("first");
  const std::vector<fs::path> parts{federation.sites[0].part("first"),
                                    federation.sites[1].part("first")};
  SECTION("by receipts") {
    const core::Verification verification = verified(server);
    CHECK(problems_of(verification) == "");
    CHECK(verification.epsilon.value() < 1.0);
    const std::string key = core::read_public_key(federation.sites[1].key().string() + ".pub");
    CHECK_THAT(notes_of(verification),
               ContainsSubstring("client 1: the key " + key + " signed that its ledger") &&
                   ContainsSubstring("charges 12 steps"));
  }
  SECTION("by the clients' directories, too") {
    const core::Verification verification = verified(server, parts);
    CHECK(problems_of(verification) == "");
    CHECK_THAT(notes_of(verification), ContainsSubstring("client 0: its directory") &&
                                           ContainsSubstring("client 1: its directory"));
  }
  SECTION("without either it says what nothing proves") {
    fs::remove_all(server / "receipts");
    const core::Verification verification = verified(server, {parts[0]});
    CHECK(problems_of(verification) == "");
    CHECK_THAT(notes_of(verification),
               ContainsSubstring("client 1: nothing here proves that it charged a ledger") &&
                   !ContainsSubstring("client 0: nothing"));
  }
  SECTION("a directory of another run, or two of one client, are problems") {
    Federation other;
    other.run("first");
    CHECK_THAT(problems_of(verified(server, {other.sites[0].part("first")})),
               ContainsSubstring("is not of a client of this run"));
    CHECK_THAT(problems_of(verified(server, {parts[0], parts[0]})),
               ContainsSubstring("is another directory of client 0"));
  }
  SECTION("a directory of another plan that was given this run's name is a problem") {
    Federation other("0.25");
    other.run("first");
    const fs::path forged = other.sites[0].part("first");
    const Json own = verify::json_lines(parts[0] / "ledgers/client-0.jsonl").front();
    std::vector<Json> lines = verify::json_lines(forged / "ledgers/client-0.jsonl");
    for (const char* key : {"run", "ground"}) lines.front()[key] = own.at(key);
    verify::write_chain(forged / "ledgers/client-0.jsonl", lines);
    CHECK(problems_of(verified(forged)) == "");
    CHECK_THAT(problems_of(verified(server, {forged})),
               ContainsSubstring("has another manifest or other facts than the server"));
  }
  SECTION("a client that ended otherwise than its server is a problem") {
    std::vector<Json> lines = verify::json_lines(parts[0] / "ledgers/client-0.jsonl");
    lines.back()["status"] = "interrupted";
    verify::write_chain(parts[0] / "ledgers/client-0.jsonl", lines);
    CHECK_FALSE(verified(server, {parts[0]}).verified());
  }
  SECTION("a ledger that was changed is a problem") {
    const fs::path ledger = parts[1] / "ledgers/client-1.jsonl";
    std::string text = read_file(ledger);
    write_file(ledger, text.substr(0, text.rfind('\n', text.size() - 2) + 1));
    CHECK_FALSE(verified(server, parts).verified());
  }
  SECTION("a receipt that was changed, or exchanged, is a problem") {
    const fs::path receipt = server / core::receipt_of_client(1);
    const std::string text = read_file(receipt);
    std::string more = text;
    more.replace(more.find("\"steps\": 12"), 11, "\"steps\": 11");
    write_file(receipt, more);
    CHECK_THAT(problems_of(verified(server)), ContainsSubstring("signature is not valid"));
    fs::copy_file(server / core::receipt_of_client(0), receipt,
                  fs::copy_options::overwrite_existing);
    CHECK_THAT(problems_of(verified(server)), ContainsSubstring("is of client 0"));
    write_file(receipt, "{}");
    CHECK_THAT(problems_of(verified(server)), ContainsSubstring("is not a receipt"));
  }
  SECTION("receipts of another run, whose ground the server names, are a problem") {
    Federation other("0.25");
    const fs::path genuine = other.run("first");
    Json summary = Json::parse(read_file(server / "summary.json"));
    const Json theirs = Json::parse(read_file(genuine / "summary.json"));
    for (const char* key : {"run", "ground"})
      summary["federated"]["remote"][key] = theirs.at("federated").at("remote").at(key);
    write_file(server / "summary.json", summary.dump(2) + "\n");
    fs::remove_all(server / "receipts");
    fs::copy(genuine / "receipts", server / "receipts");
    CHECK_THAT(problems_of(verified(server)),
               ContainsSubstring("ground is not of this manifest and these facts"));
  }
  SECTION("a receipt that says less than the ledger is a problem") {
    const fs::path file = server / core::receipt_of_client(0);
    core::SiteReceipt receipt = core::SiteReceipt::of(read_file(file));
    receipt.steps -= 1;
    write_file(file, receipt.signed_by(federation.sites[0].key()));
    CHECK_THAT(problems_of(verified(server, parts)), ContainsSubstring("has other steps"));
  }
  SECTION("a model or a statement that was changed is a problem") {
    std::string summary = read_file(server / "summary.json");
    Json json = Json::parse(summary);
    json["epsilon"] = 0.5;
    write_file(server / "summary.json", json.dump(2));
    CHECK_FALSE(verified(server).verified());
  }
  SECTION("only such a server has directories of clients") {
    CHECK_THROWS_AS(verified(parts[0], {parts[1]}), ConfigError);
  }
}

TEST_CASE("a server keeps only receipts for its run, and a farewell has one answer",
          "[federated][verify]") {
  Federation federation;
  Sites clients({&federation.sites[0], &federation.sites[1]}, "first");
  std::string kept;
  clients.changes = [&](std::string& answer) {
    if (!answer.starts_with("{")) return;
    if (kept.empty()) {
      kept = answer;
    } else {
      answer = kept;  // the receipt of client 0 instead of that of client 1
    }
  };
  const fs::path server = federation.run(clients, "first");
  CHECK(fs::exists(server / core::receipt_of_client(0)));
  CHECK_FALSE(fs::exists(server / core::receipt_of_client(1)));
  REQUIRE(clients.problems.size() == 1);
  CHECK_THAT(clients.problems.front(), ContainsSubstring("its receipt is of client 0"));
  CHECK(read_file(federation.sites[0].part("first") / "receipt.json") == kept);
}

TEST_CASE("racing clients of one account never spend it twice, also if they are killed",
          "[federated][account][privacy]") {
  Federation federation;
  // The first order to client 0, which any directory of this client may receive.
  Sites clients({&federation.sites[0], &federation.sites[1]}, "unheard");
  clients.hears = [](const core::OrderToClient&) { return false; };
  federation.run(clients, "unheard");
  REQUIRE_FALSE(clients.first_order.empty());

  std::mt19937 random(20261202);
  auto span = std::chrono::microseconds(1);  // of a race in which nobody is killed
  const auto begin_all = [&](const Site& site, int racers, bool kills) {
    std::vector<pid_t> children;
    for (int i = 0; i < racers; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        int result = 1;
        try {
          (void)site.begin("part-" + std::to_string(i))->answer(clients.first_order);
          result = 0;
        } catch (const std::exception&) {
          result = 1;
        }
        ::_exit(result);
      }
      children.push_back(child);
    }
    if (kills) {
      std::this_thread::sleep_for(span * (random() % 1000) / 1000);
      ::kill(children[random() % children.size()], SIGKILL);
    }
    int answered = 0;
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) ++answered;
    }
    return answered;
  };
  {
    const TempDir dir;
    const Site site(dir.path() / "alpha", 0);
    const auto start = std::chrono::steady_clock::now();
    CHECK(begin_all(site, 3, false) == 1);
    span = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                                 start);
  }
  const int races = 80;
  int paid = 0, killed_after_paying = 0;
  for (int race = 0; race < races; ++race) {
    const TempDir dir;
    const Site site(dir.path() / "alpha", 0);
    const int first = begin_all(site, 3, true), second = begin_all(site, 3, false);
    CAPTURE(race, first, second);
    const core::DataAccount account = site.read_account();
    // It pays for one part; who answers twice is the same part.
    CHECK(account.entries().size() == 1);
    CHECK(first <= 1);
    CHECK(second <= 1);
    std::size_t charged = 0;
    for (int i = 0; i < 3; ++i) {
      const fs::path part = site.part("part-" + std::to_string(i));
      const fs::path ledger = part / "ledgers/client-0.jsonl";
      if (!fs::exists(ledger) || read_file(ledger).empty()) continue;
      ++charged;
      CHECK_THAT(read_file(ledger), ContainsSubstring(account.entries().front().id));
    }
    CHECK(charged <= 1);
    paid += static_cast<int>(charged);
    if (first == 0) ++killed_after_paying;
  }
  CHECK(paid > races / 2);
  CHECK(killed_after_paying > 0);
}
