// Federated runs with dp_fed_avg: the server adds the noise, and the clients are the privacy units.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "federated.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/federated/client.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "test_components.hpp"

namespace federated {

namespace {

/// Draws every unit in every step; the test can see the draws.
class WatchedSampler : public Sampler {
 public:
  static inline std::vector<double> draws;
  static inline std::vector<std::uint64_t> steps;

  explicit WatchedSampler(const Params&) {}
  void start(const SamplingPlan& plan) override { size_ = plan.dataset_size; }
  double expected_batch_size(std::uint64_t) const override { return static_cast<double>(size_); }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return {releases.begin(), releases.end()};
  }
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              std::vector<std::uint32_t>& batch) override {
    draws.push_back(random.stream(step)->uniform());
    steps.push_back(step);
    batch.resize(rows);
    for (std::uint32_t row = 0; row < rows; ++row) batch[row] = row;
  }

 private:
  std::uint64_t size_ = 0;
};

/// Breaks its contract: the first unit is drawn twice.
class TwiceSampler final : public WatchedSampler {
 public:
  using WatchedSampler::WatchedSampler;
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              std::vector<std::uint32_t>& batch) override {
    WatchedSampler::sample(step, rows, random, batch);
    batch.push_back(0);
  }
};

const Catalog& watching_clients() {
  static const Catalog catalog = house_with(
      {offer<Sampler, WatchedSampler>("watched"), offer<Sampler, TwiceSampler>("twice")});
  return catalog;
}

}  // namespace

TEST_CASE("participation that draws a client twice ends a run", "[federated][privacy]") {
  for (const char* aggregation : {"fed_avg", "dp_fed_avg, client_clip_norm: 1"}) {
    std::string yaml = kBase;
    yaml.replace(
        yaml.find("local_iterations: 3"), 19,
        std::string("local_iterations: 3, participation: twice, aggregation: ") + aggregation);
    const core::Manifest manifest = core::parse_manifest(
        yaml, "/nowhere/m.yaml", {"privacy.target_epsilon=1000"}, watching_clients());
    const core::Plan plan = core::make_plan(manifest);
    const TempDir dir;
    CHECK_THROWS_AS(
        core::run(plan,
                  {.directory = dir.path() / "run", .lock = "", .threads = 1, .on_progress = {}}),
        PluginError);
  }
}

// The noise follows from the seed, so two runs differ only by what clients send. With a learning
// rate of 1e-30, they send the model that they received.
TEST_CASE("dp_fed_avg: the change of a client that drops out is not in the sum", "[federated]") {
  const auto parameters = [](const char* more) {
    Experiment experiment(kBase,
                          {"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
                           "privacy.target_epsilon=200", more});
    experiment.run();
    return experiment.parameters();
  };
  const auto unchanged = parameters("schedules.learning_rate=1e-30");
  CHECK(parameters("federated.client_drop_rate=0.999999999") == unchanged);
  CHECK(parameters("federated.client_drop_rate=0") != unchanged);
}

TEST_CASE("dp_fed_avg: the server's ledger is not above its budget, whatever happens",
          "[federated][privacy]") {
  // 4 clients with little noise: the budgets end in the middle of the rounds.
  const std::vector<std::vector<std::string>> circumstances{
      {},
      {"federated.client_drop_rate=0.5", "federated.straggler_rate=0.5"},
      {"federated.participation={kind: poisson, sample_rate: 0.6}"},
      {"federated.participation={kind: allocation, steps_per_epoch: 2}", "privacy.accountant=pld",
       "schedules.noise_multiplier=1.4", "federated.client_drop_rate=0.3"},
      {"federated.partition={kind: dirichlet, alpha: 1, at_least: 20}",
       "sampler={kind: poisson, batch_size: 15}"}};
  for (const auto& where : circumstances) {
    for (const double epsilon : {4.0, 8.0}) {
      std::vector<std::string> set{
          "steps=100", "federated.rounds=30", "federated.aggregation=dp_fed_avg",
          "federated.client_clip_norm=1", "privacy.target_epsilon=" + std::to_string(epsilon)};
      set.insert(set.end(), where.begin(), where.end());
      INFO((where.empty() ? "" : where.front()) << ", " << epsilon);
      Experiment experiment(kBase, set);
      const auto result = experiment.run(2);
      const auto ledger = experiment.ledger();
      for (const auto& release : ledger.releases) CHECK(release.epsilon <= epsilon);
      const auto rounds = lines_of(experiment.run_dir() / "rounds.jsonl");
      CHECK(rounds.size() <= ledger.releases.size());  // everything made was charged
      CHECK(rounds.size() == experiment.plan().affordable_steps);
      CHECK(rounds.size() < 30);
      CHECK(result.status == core::RunStatus::budget_exhausted);
      CHECK(result.epsilon.value <= epsilon);
    }
  }
}

TEST_CASE("dp_fed_avg: a number of examples that was counted is not a public one",
          "[federated][privacy]") {
  // Without a client's examples the total is smaller, and the shares of all other clients change.
  const auto lists_sizes = [](const std::vector<std::string>& more) {
    std::vector<std::string> set{"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
                                 "privacy.target_epsilon=1000"};
    set.insert(set.end(), more.begin(), more.end());
    Experiment experiment(kBase, set);
    const auto& list = experiment.plan().unaccounted;
    return std::any_of(list.begin(), list.end(), [](const core::Unaccounted& item) {
      return item.what == "sizes of the clients' shards";
    });
  };
  CHECK(lists_sizes({}));
  CHECK(lists_sizes({"privacy.adjacency=replace_one", "federated.participation=full_batch"}));
  CHECK_FALSE(lists_sizes({"data.size=400"}));
  CHECK_FALSE(lists_sizes({"privacy.adjacency=zero_out", "federated.participation=full_batch"}));
  CHECK_FALSE(lists_sizes({"federated.sizes=[100, 100, 100, 100]",
                           "federated.partition={kind: dirichlet, alpha: 50, at_least: 20}"}));
}

TEST_CASE("dp_fed_avg: how many examples there are is declared, or listed",
          "[federated][privacy]") {
  // A removed or replaced client takes its examples with it.
  const auto number_of = [](const std::vector<std::string>& more, bool is_listed) {
    std::vector<std::string> set{"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
                                 "privacy.target_epsilon=1000"};
    set.insert(set.end(), more.begin(), more.end());
    Experiment experiment(kBase, set);
    const auto& list = experiment.plan().unaccounted;
    CHECK(std::any_of(list.begin(), list.end(), [](const core::Unaccounted& item) {
            return item.what == "number of training examples";
          }) == is_listed);
    return core::facts_of(experiment.plan()).dataset_size;
  };
  const std::string exchanged = "privacy.adjacency=replace_one";
  const std::string all = "federated.participation=full_batch";
  CHECK(number_of({}, true) == 400);
  CHECK(number_of({exchanged, all}, true) == 400);
  CHECK(number_of({"data.size=390"}, false) == 390);
  CHECK(number_of({exchanged, all, "data.size=390"}, false) == 390);
  CHECK(number_of({"privacy.adjacency=zero_out", all}, false) == 400);
  CHECK(number_of({"federated.sizes=[100, 100, 100, 90]",
                   "federated.partition={kind: dirichlet, alpha: 50, at_least: 20}"},
                  false) == 390);
}

TEST_CASE("dp_fed_avg: the unit is the client, and rounds are what is charged",
          "[federated][privacy]") {
  const std::vector<std::string> set{
      "federated.aggregation=dp_fed_avg", "federated.client_clip_norm=0.5", "federated.rounds=12",
      "privacy.target_epsilon=100",       "privacy.adjacency=zero_out",     "sampler=full_batch"};
  Experiment experiment(kBase, set);
  const auto& plan = experiment.plan();
  CHECK(plan.unit == PrivacyUnit::client);
  CHECK(plan.steps() == 12);
  CHECK(plan.clip_norm == std::vector<double>(12, 0.5));
  CHECK(plan.batch_size.front() == 4.0);  // all clients
  const auto result = experiment.run();
  CHECK(result.status == core::RunStatus::completed);
  CHECK(result.summary.at("unit") == "client");
  const auto ledger = experiment.ledger();
  CHECK(ledger.releases.size() == 12);
  CHECK(ledger.facts.at("unit") == "client");
  CHECK_THAT(result.statement.at("prose").dump(), ContainsSubstring("per client"));
}

TEST_CASE("no two samplers of a run draw the same numbers, the server's among them",
          "[federated][privacy]") {
  // Amplification requires secret participation, so it must not depend on the batches that a client
  // draws.
  for (const char* aggregation :
       {"fed_avg", "dp_fed_avg, client_clip_norm: 1, client_drop_rate: 0.5, straggler_rate: 0.5"}) {
    WatchedSampler::draws.clear();
    std::string yaml = kBase;
    yaml.replace(
        yaml.find("local_iterations: 3"), 19,
        std::string("local_iterations: 3, participation: watched, aggregation: ") + aggregation);
    const core::Manifest manifest = core::parse_manifest(
        yaml, "/nowhere/m.yaml",
        {"sampler=watched", "privacy.target_epsilon=1000", "federated.rounds=5"},
        watching_clients());
    const core::Plan plan = core::make_plan(manifest);
    const TempDir dir;
    core::run(plan, {.directory = dir.path() / "run", .lock = "", .threads = 1, .on_progress = {}});
    const std::set<double> different(WatchedSampler::draws.begin(), WatchedSampler::draws.end());
    CHECK(WatchedSampler::draws.size() > 5 + 4 * 5);
    CHECK(different.size() == WatchedSampler::draws.size());
  }
}

TEST_CASE("dp_fed_avg: what a client does in a round does not follow from earlier participation",
          "[federated][privacy]") {
  // A client's steps are numbered by rounds, whether it takes part or not: the tenth round has the
  // schedules and batches of steps 27 to 29.
  WatchedSampler::steps.clear();
  std::string yaml = kBase;
  yaml.replace(yaml.find("local_iterations: 3"), 19,
               "local_iterations: 3, participation: {kind: fixed_size, batch_size: 2}, "
               "aggregation: dp_fed_avg, client_clip_norm: 1");
  const core::Manifest manifest =
      core::parse_manifest(yaml, "/nowhere/m.yaml",
                           {"sampler=watched", "privacy.target_epsilon=1000",
                            "privacy.adjacency=replace_one", "steps=30"},
                           watching_clients());
  const core::Plan plan = core::make_plan(manifest);
  const TempDir dir;
  core::run(plan, {.directory = dir.path() / "run", .lock = "", .threads = 1, .on_progress = {}});
  std::map<std::uint64_t, int> times;
  for (const std::uint64_t step : WatchedSampler::steps) ++times[step];
  CHECK(times.size() == 30);
  for (const auto& [step, count] : times) CHECK(count == 2);  // for two clients, in every round
}

TEST_CASE("dp_fed_avg: a client with fewer rows than a batch has takes them all, and ends no run",
          "[federated][privacy]") {
  // 250 examples per client are declared; the real number, 100, is private.
  const auto parameters_with = [](const std::string& sampler, const std::string& adjacency) {
    Experiment experiment(kBase,
                          {"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
                           "data.size=1000", "sampler=" + sampler, "schedules.batch_size=200",
                           "privacy.adjacency=" + adjacency, "privacy.target_epsilon=1000"});
    CHECK(experiment.run().status == core::RunStatus::completed);
    return experiment.parameters();
  };
  for (const char* adjacency : {"add_or_remove_one", "replace_one"}) {
    const auto all = parameters_with("poisson", adjacency);
    CHECK(all == parameters_with("{kind: fixed_size, amplification: false}", adjacency));
    CHECK(std::all_of(all.begin(), all.end(), [](float x) { return std::isfinite(x); }));
  }
}

TEST_CASE("dp_fed_avg: the server's own order of clients is not drawn as batches are",
          "[federated][privacy]") {
  Experiment experiment(
      kBase,
      {"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
       "aggregator={kind: tree}", "privacy.accountant=zcdp", "privacy.adjacency=zero_out",
       "federated.participation={kind: sequential, batch_size: 2}", "privacy.target_epsilon=1000"});
  const auto first_of = [](const core::RandomKey& key) {
    return core::make_random_source(key.derive("sampler"))->stream(0)->uniform();
  };
  const core::RandomKey run = core::RandomKey::from_seed(1);
  const double drawn = experiment.plan().correlated->order->random->stream(0)->uniform();
  CHECK(drawn == first_of(core::server_key(run)));
  CHECK(drawn != first_of(core::Client::key_of(0, run)));
}

TEST_CASE("dp_fed_avg: the server's learning rate is its own where the clients' is auto",
          "[federated]") {
  Experiment experiment(
      kBase, {"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
              "federated.server_learning_rate=0.25", "optimizer=normalized_sgd",
              "schedules.learning_rate=auto", "data.size=400", "privacy.target_epsilon=1000"});
  CHECK(experiment.plan().learning_rate.front() == 0.25);
  CHECK(experiment.plan().federated->clients.front().plan->learning_rate.front() != 0.25);
}

TEST_CASE("dp_fed_avg: participation that is amplified stays secret", "[federated][privacy]") {
  // Poisson participation is charged as Poisson sampling, which is only valid if nobody knows the
  // participants; draws without replacement must be secret, too.
  std::string yaml = kBase;
  yaml.replace(yaml.find("seed: 1"), 7, "mode: release");
  const std::vector<std::string> base{"federated.aggregation=dp_fed_avg",
                                      "federated.client_clip_norm=1", "federated.clients=20",
                                      "privacy.target_epsilon=200", "data.size=400"};
  struct Case {
    const char *participation, *adjacency, *accountant;
    bool is_secret;
  };
  for (const Case& one :
       {Case{"{kind: poisson, sample_rate: 0.3}", "add_or_remove_one", "rdp", true},
        Case{"{kind: allocation, steps_per_epoch: 3}", "add_or_remove_one", "pld", true},
        Case{"{kind: allocation, steps_per_epoch: 3}", "zero_out", "pld", true},
        Case{"{kind: fixed_size, batch_size: 2}", "replace_one", "rdp", true},
        Case{"full_batch", "zero_out", "rdp", false}}) {
    INFO(one.participation);
    std::vector<std::string> set = base;
    set.push_back(std::string("federated.participation=") + one.participation);
    set.push_back(std::string("privacy.adjacency=") + one.adjacency);
    set.push_back(std::string("privacy.accountant=") + one.accountant);
    Experiment released(yaml, set), shown(kBase, set);
    const auto result = released.run();
    shown.run();
    std::set<std::string> names;
    for (const auto& item : shown.plan().unaccounted) names.insert(item.what);
    CHECK(names.contains("who takes part in which round") == one.is_secret);
    CHECK(lines_of(shown.run_dir() / "rounds.jsonl").front().contains("clients"));
    CHECK(clients_of(shown).front().contains("steps"));
    for (const Json& round : lines_of(released.run_dir() / "rounds.jsonl")) {
      CHECK(round.contains("clients") != one.is_secret);
      CHECK(round.contains("dropped") != one.is_secret);
      CHECK(round.contains("bytes_down") != one.is_secret);
      CHECK(round.contains("bytes_up") != one.is_secret);
    }
    for (const Json& client : clients_of(released)) {
      CHECK(client.contains("steps") != one.is_secret);
      CHECK(client.contains("estimates") != one.is_secret);
    }
    for (const char* key : {"dropped", "bytes_down", "bytes_up"})
      CHECK(result.summary.at("federated").contains(key) != one.is_secret);
  }
}

TEST_CASE("dp_fed_avg: the aggregator is the server's, and clients make no noise of any kind",
          "[federated]") {
  // Noise in trees belongs to the server's rounds; the clients may use any sampler.
  Experiment experiment(
      kBase,
      {"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
       "aggregator={kind: tree}", "privacy.accountant=zcdp", "privacy.adjacency=zero_out",
       "federated.participation={kind: sequential, batch_size: 2}", "privacy.target_epsilon=1000"});
  const auto& plan = experiment.plan();
  CHECK(plan.correlated != nullptr);
  for (const auto& client : plan.federated->clients) CHECK(client.plan->correlated == nullptr);
  CHECK(experiment.run().status == core::RunStatus::completed);
}

TEST_CASE("dp_fed_avg without noise or clipping is fed_avg without noise", "[federated]") {
  // Compares the mean of the updates with the mean of the models, both in float32.
  const std::vector<std::string> quiet{"privacy.noise=off", "federated.client_drop_rate=0"};
  std::vector<std::string> server = quiet;
  for (const char* one : {"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1000"})
    server.emplace_back(one);
  Experiment clients(kBase, quiet), at_server(kBase, server);
  clients.run();
  at_server.run();
  const auto a = clients.parameters(), b = at_server.parameters();
  for (std::size_t i = 0; i < a.size(); ++i)
    CHECK_THAT(static_cast<double>(a[i]), WithinAbs(static_cast<double>(b[i]), 1e-4));
}

TEST_CASE("dp_fed_avg: no client moves the model further than its bound", "[federated][privacy]") {
  // Without noise, a round changes the model by the mean of clipped updates: at most the clip norm.
  Experiment experiment(kBase, {"privacy.noise=off", "federated.aggregation=dp_fed_avg",
                                "federated.client_clip_norm=0.001", "federated.rounds=1",
                                "schedules.learning_rate=5"});
  Experiment nothing(kBase, {"privacy.noise=off", "federated.aggregation=dp_fed_avg",
                             "federated.client_clip_norm=0.001", "federated.rounds=1",
                             "schedules.learning_rate=0"});
  experiment.run();
  nothing.run();
  const auto a = experiment.parameters(), b = nothing.parameters();
  double square = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double change = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    square += change * change;
  }
  CHECK(std::sqrt(square) > 0.0);
  CHECK(std::sqrt(square) <= 0.001 * (1.0 + 1e-3));
}

}  // namespace federated
