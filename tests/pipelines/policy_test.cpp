// A site's policy on every way to train, and manifests that go beyond one.
#include "privgrad/plan/policy.hpp"

#include <cstdlib>

#include "beyond_policy.hpp"
#include "privgrad/federated/remote_client.hpp"
#include "privgrad/federated/remote_clients.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/trust/data_account.hpp"
#include "train.hpp"
#include "trials.hpp"

using namespace privgrad;

namespace fs = std::filesystem;

namespace {

constexpr const char* kTable = R"(privgrad: 1
name: site
mode: release
data: {kind: csv, train: t.csv, target: y, row: line, malformed: fill, classes: 2, target_fill: 0,
       columns: [{name: a, type: number, fill: 0}], size: 40}
model: linear
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: uniform, clip_norm: 1, learning_rate: 0.5}
privacy: {target_epsilon: 1, target_delta: 1e-6, adjacency: zero_out, accountant: zcdp}
steps: 4
)";

constexpr const char* kFederated = R"(privgrad: 1
name: federation
mode: release
data: {kind: csv, train: t.csv, target: y, row: line, malformed: fill, classes: 2, target_fill: 0,
       columns: [{name: a, type: number, fill: 0}], size: 80}
model: linear
sampler: {kind: poisson, sample_rate: 0.5}
optimizer: sgd
schedules: {noise_multiplier: uniform, clip_norm: 1, learning_rate: 0.5}
privacy: {target_epsilon: 1, target_delta: 1e-6, adjacency: add_or_remove_one, accountant: rdp}
steps: 8
federated: {clients: 2, rounds: 4, local_iterations: 2, sizes: [40, 40], shards: given,
            partition: {kind: by_column, column: 0, values: [0, 1]}}
)";

/// PRIVGRAD_POLICY, for as long as this lives.
class InForce {
 public:
  explicit InForce(const fs::path& file) { ::setenv("PRIVGRAD_POLICY", file.c_str(), 1); }
  ~InForce() { ::unsetenv("PRIVGRAD_POLICY"); }
  InForce(const InForce&) = delete;
  InForce& operator=(const InForce&) = delete;
};

/// A folder with a table, manifests and policies.
class Site {
 public:
  Site() {
    std::string table = "a,y\n";
    for (int i = 0; i < 40; ++i) table += std::to_string(i % 7) + "," + (i % 2 ? "1" : "0") + "\n";
    fs::create_directories(dir() / "elsewhere");
    write_file(dir() / "t.csv", table);
    write_file(dir() / "elsewhere/u.csv", table);
    fs::create_symlink(dir() / "elsewhere/u.csv", dir() / "link.csv");
    write_file(dir() / "m.yaml", kTable);
    write_file(dir() / "f.yaml", kFederated);
  }
  const fs::path& dir() const { return dir_.path(); }
  fs::path policy(const std::string& text) const {
    write_file(dir() / "policy.yaml", text);
    return dir() / "policy.yaml";
  }
  /// A policy with one rule, for t.csv.
  fs::path rule(const std::string& more, const std::string& also = "") const {
    return policy("privgrad_policy: 1\n" + also + "data:\n  - {files: ['" + dir().string() +
                  "/t.csv'], " + more + "}\n");
  }
  core::Manifest load(const char* name, const Overrides& set = {}) const {
    return core::load_manifest(dir() / name, set, house());
  }
  /// Everything that is in the folder.
  std::vector<std::string> content() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(dir()))
      names.push_back(entry.path().string() +
                      (entry.is_regular_file() ? ": " + read_file(entry.path()) : ""));
    std::ranges::sort(names);
    return names;
  }

 private:
  TempDir dir_;
};

const std::string kWide = "epsilon: 2, delta: 1e-6";
const std::string kNarrow = "epsilon: 0.5, delta: 1e-6";

core::RemoteClientOptions client_at(const fs::path& folder, const std::string& server = "") {
  return {.number = 0,
          .directory = folder / "client",
          .state = folder / "state",
          .lock = "",
          .server = server};
}

/// Clients that never answer.
class Nobody final : public core::RemoteClients {
 public:
  std::vector<std::optional<std::string>> ask(
      std::span<const core::OrderToClient> orders) override {
    return std::vector<std::optional<std::string>>(orders.size());
  }
  void refused(std::uint32_t, const std::string&) override {}
};

}  // namespace

TEST_CASE("every plan of data obeys policies, and a recorded plan has no data",
          "[policy][privacy]") {
  const Site site;
  const core::Manifest manifest = site.load("m.yaml");
  const core::Plan plan = core::make_plan(manifest);
  const core::PublicFacts facts = core::facts_of(plan);
  for (const std::string& text : {kNarrow, std::string("epsilon: 2, delta: 1e-7")}) {
    const InForce policy(site.rule(text));
    CHECK_THROWS_AS(core::make_plan(manifest), core::PolicyError);
    // Processes of a cluster, and runs that are resumed.
    CHECK_THROWS_AS(core::make_shared_plan(manifest, core::run_key(manifest.seed),
                                           std::make_shared<core::KeptNumbers>()),
                    core::PolicyError);
    CHECK_NOTHROW(core::make_plan(manifest, facts));  // as `verify` makes it
  }
  const InForce policy(site.rule(kWide));
  CHECK_NOTHROW(core::make_plan(manifest));
}

TEST_CASE("a plugin that no manifest names obeys policies, such as one that joins processes",
          "[policy][privacy]") {
  const Site site;
  const PluginIdentity plugin{"house.ring", "1", std::string(64, 'a'), "", "/opt/ring.privgrad.so"};
  CHECK_NOTHROW(core::obey_policies(plugin));
  const InForce policy(site.policy("privgrad_policy: 1\nmode: release\nplugins: {}\n"));
  CHECK_THROWS_WITH(core::obey_policies(plugin), ContainsSubstring("the run loads house.ring"));
}

TEST_CASE("a client that is a separate program obeys its site's policies", "[policy][privacy]") {
  const Site site;
  const core::Manifest manifest = site.load("f.yaml");
  const core::Manifest own = site.load("m.yaml");
  const auto before = site.content();
  const auto made = [&](const fs::path& file, const std::string& server = "") -> std::string {
    const InForce policy(file);
    try {
      const core::RemoteClient client(manifest, &own.data, client_at(site.dir(), server));
    } catch (const core::PolicyError& problem) {
      return problem.what();
    }
    return "made";
  };
  CHECK(made(site.rule(kWide)) == "made");
  CHECK_THAT(made(site.rule(kNarrow)), ContainsSubstring("data.0.epsilon: the run states"));
  CHECK_THAT(made(site.rule("epsilon: 2, delta: 1e-7")), ContainsSubstring("data.0.delta"));
  CHECK_THAT(made(site.rule(kWide + ", account: /srv/a")), ContainsSubstring("data.0.account"));
  const std::string servers = "servers: ['alpha:9092']\n";
  CHECK_THAT(made(site.rule(kWide, servers)),
             ContainsSubstring("servers: the client's server is not"));
  CHECK_THAT(made(site.rule(kWide, servers), "beta:9092"), ContainsSubstring("beta:9092, allowed"));
  CHECK(made(site.rule(kWide, servers), "alpha:9092") == "made");
  fs::remove(site.dir() / "policy.yaml");
  CHECK(site.content() == before);
}

TEST_CASE("a client whose data are not its own obeys policies, too", "[policy][privacy]") {
  const Site site;
  const core::Manifest manifest = site.load("f.yaml");
  const auto made = [&](const fs::path& file, const std::string& server) {
    const InForce policy(file);
    const core::RemoteClient client(manifest, nullptr, client_at(site.dir(), server));
  };
  CHECK_THROWS_AS(made(site.rule(kNarrow), ""), core::PolicyError);
  CHECK_THROWS_AS(made(site.rule(kWide, "servers: ['a:1']\n"), "b:1"), core::PolicyError);
}

TEST_CASE("a client of dp_fed_avg starts only for a server that the policy names",
          "[policy][privacy]") {
  const Site site;
  const core::Manifest manifest =
      site.load("f.yaml", {"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
                           "federated.sizes=[40, 40]"});
  const core::Manifest own = site.load("m.yaml");
  const auto made = [&](const fs::path& file) {
    const InForce policy(file);
    core::RemoteClientOptions options = client_at(site.dir(), "alpha:9092");
    options.trusts_server = true;
    const core::RemoteClient client(manifest, &own.data, options);
  };
  CHECK_THROWS_WITH(made(site.rule(kWide)), ContainsSubstring("the client sends exact changes"));
}

TEST_CASE("a server without data obeys policies", "[policy]") {
  const Site site;
  const core::Manifest manifest = site.load("f.yaml", {"mode=research"});
  const core::Manifest own = site.load("m.yaml");
  const core::RemoteClient client(manifest, &own.data, client_at(site.dir()));
  const core::Plan plan =
      core::make_plan(manifest, core::facts_from_json(client.introduction().at("facts").dump()));
  Nobody clients;
  core::RunOptions options{
      .directory = site.dir() / "run", .lock = "", .threads = 1, .on_progress = {}};
  options.clients = &clients;
  const InForce policy(site.rule(kNarrow, "mode: release\n"));
  CHECK_THROWS_WITH(core::run(plan, options), ContainsSubstring("mode: the run is in research"));
  CHECK_FALSE(fs::exists(site.dir() / "run"));
}

TEST_CASE("no generated manifest beyond a policy starts, and nothing is written or charged",
          "[policy][privacy][long]") {
  const Site site;
  core::DataAccount::open(site.dir() / "mine", {.name = "mine",
                                                .adjacency = Adjacency::zero_out,
                                                .target_epsilon = 2,
                                                .target_delta = 1e-6,
                                                .accountant = "zcdp"});
  const int count = trials(1000, "manifests beyond a policy");
  for (int trial = 0; trial < count; ++trial) {
    std::mt19937 random(static_cast<unsigned>(trial));
    const BeyondPolicy one = beyond_policy(site.dir(), random);
    std::string told;
    for (const std::string& change : one.set) told += change + "\n";
    INFO("trial " << trial << ", rule " << one.rule << "\n" << told);
    const InForce policy(site.rule(kWide + one.rule));
    const auto before = site.content();
    const core::Manifest manifest = site.load("m.yaml", one.set);
    CHECK_THROWS_AS(core::make_plan(manifest), core::PolicyError);
    CHECK(site.content() == before);
  }
}
