// Federated runs with fed_avg: clients with their own ledgers, whose models are averaged.
#include <algorithm>
#include <optional>
#include <set>

#include "federated.hpp"
#include "privgrad/manifest/component_use.hpp"
#include "privgrad/partition.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/transform.hpp"
#include "test_components.hpp"
#include "token_rows.hpp"
#include "verify.hpp"

namespace federated {

TEST_CASE("one client, one local step a round, everybody takes part: the central run, bit for bit",
          "[federated]") {
  std::string central = kBase;
  central.erase(central.find("federated: {"));
  for (const char* optimizer : {"sgd", "{kind: fed_prox, mu: 0.5}"}) {
    const std::string same = std::string("optimizer=") + optimizer;
    Experiment alone(central, {same});
    // With one step per round, the anchor of fed_prox is w itself.
    Experiment federated(kBase, {same, "federated.clients=1", "federated.rounds=40",
                                 "federated.local_iterations=1"});
    alone.run();
    const auto result = federated.run();
    CHECK(result.status == core::RunStatus::completed);
    CHECK(federated.parameters() == alone.parameters());
    const auto ledger = ledgers(federated, 1).front();
    REQUIRE(ledger.releases.size() == alone.ledger().releases.size());
    CHECK(ledger.releases.back().epsilon == alone.ledger().releases.back().epsilon);
  }
}

TEST_CASE("a federated run leaves its whole record", "[federated]") {
  Experiment experiment(kBase);
  const auto result = experiment.run();
  CHECK(result.status == core::RunStatus::completed);
  CHECK(result.steps == 30);  // 10 rounds of 3 steps
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(experiment.run_dir()))
    files.insert(entry.path().filename());
  CHECK(files == std::set<std::string>{"clients.json", "facts.json", "ledgers", "manifest.yaml",
                                       "metrics.jsonl", "model.safetensors", "privgrad.lock",
                                       "rounds.jsonl", "schedules.json", "statement.json",
                                       "summary.json"});
  const auto rounds = lines_of(experiment.run_dir() / "rounds.jsonl");
  REQUIRE(rounds.size() == 10);
  // A linear model of 10 features and 2 classes; 4 bytes per parameter and 8 for the number of
  // steps.
  const std::uint64_t model = 4 * experiment.plan().parameters;
  CHECK(rounds.front().at("bytes_down") == 4 * (model + 8));
  CHECK(rounds.front().at("bytes_up") == 4 * model);
  CHECK(result.summary.at("federated").at("bytes_up") == 10 * 4 * model);
  CHECK(result.statement.at("setting") == "federated");
  CHECK(result.metrics.test_accuracy.value() > 0.8);
}

TEST_CASE("the same seed gives the same model and ledgers on any number of threads",
          "[federated]") {
  const std::vector<std::vector<std::string>> variants{
      {"federated.client_drop_rate=0.3", "federated.straggler_rate=0.4"},
      {kAli, "federated.rounds=12"},
      {kAli, "federated.rounds=12", "federated.estimates=from_models"},
      {kAli, "federated.rounds=12", "federated.estimates=unaccounted"},
      kEncoder,
      {"model={kind: mlp, hidden: [8]}",
       "federated.participation={kind: poisson, sample_rate: 0.5}"},
      {"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
       "privacy.target_epsilon=200"}};
  for (const auto& variant : variants) {
    INFO(variant.front());
    Experiment one(kBase, variant), four(kBase, variant);
    for (const Experiment* each : {&one, &four}) write_tokens(each->dir());
    one.run(1);
    four.run(4);
    CHECK(one.parameters() == four.parameters());
    for (const char* file : {"rounds.jsonl", "clients.json", "metrics.jsonl"})
      CHECK(read_file(one.run_dir() / file) == read_file(four.run_dir() / file));
  }
}

TEST_CASE("a run in which no client's model arrives is not completed", "[federated]") {
  // Each of some 20 models is lost with probability 1 - 1e-9.
  Experiment lost(kBase, {"federated.client_drop_rate=0.999999999"});
  CHECK(lost.run().status == core::RunStatus::untrained);
  Experiment some(kBase, {"federated.client_drop_rate=0.3"});
  CHECK(some.run().status == core::RunStatus::completed);
}

TEST_CASE("no client's ledger is above its budget, whatever happens", "[federated][privacy]") {
  // Budgets that end in the middle of a round, with drop-outs and partial participation, with every
  // way of choosing local iterations and of estimating, and with shards of different sizes.
  const std::vector<std::vector<std::string>> iterations{
      {"federated.local_iterations=7"},
      {kAli, "federated.estimates=private", "federated.estimate_share=0.3"},
      {kAli, "federated.estimates=from_models"},
      {kAli, "federated.estimates=unaccounted"},
      {"federated.local_iterations={kind: ali_dpfl, form: closed}", "federated.estimate_noise=4"}};
  const std::vector<std::vector<std::string>> circumstances{
      {},
      {"federated.client_drop_rate=0.5", "federated.straggler_rate=0.5"},
      {"federated.participation={kind: poisson, sample_rate: 0.6}",
       "federated.client_drop_rate=0.2"},
      {"federated.partition={kind: dirichlet, alpha: 1, at_least: 20}",
       "sampler={kind: poisson, batch_size: 15}"}};
  for (const auto& how : iterations) {
    for (const auto& where : circumstances) {
      for (const char* epsilon : {"2.5", "4"}) {
        std::vector<std::string> set{"steps=100", "federated.rounds=30",
                                     std::string("privacy.target_epsilon=") + epsilon};
        set.insert(set.end(), how.begin(), how.end());
        set.insert(set.end(), where.begin(), where.end());
        INFO(how.front() << ", " << (where.empty() ? "" : where.front()) << ", " << epsilon);
        Experiment experiment(kBase, set);
        const auto result = experiment.run(2);
        const double budget = std::stod(epsilon);
        const auto books = ledgers(experiment, 4);
        const Json clients = clients_of(experiment);
        for (std::size_t i = 0; i < books.size(); ++i) {
          std::uint64_t steps = 0, estimates = 0;
          for (const auto& release : books[i].releases) CHECK(release.epsilon <= budget);
          for (const auto& line : lines_of(experiment.run_dir() / "ledgers" /
                                           ("client-" + std::to_string(i) + ".jsonl"))) {
            if (line.at("type") != "release") continue;
            (line.value("what", "") == "estimate" ? estimates : steps) += 1;
          }
          // Everything made was charged, even for clients that were lost afterwards.
          CHECK(clients[i].at("steps").get<std::uint64_t>() <= steps);
          CHECK(clients[i].at("steps") <= clients[i].at("affordable_steps"));
          if (how.size() > 1 && how[1] != "federated.estimates=unaccounted" &&
              how[1] != "federated.estimates=from_models") {
            CHECK(clients[i].at("estimates").get<std::uint64_t>() == estimates);
          } else {
            CHECK(estimates == 0);
          }
          // The stated epsilon covers the charges.
          CHECK(books[i].releases.back().epsilon <= result.epsilon.value * (1.0 + 1e-9));
        }
        CHECK(result.epsilon.value <= budget);
        // With a fixed number and full participation, each client makes all the steps that its own
        // budget pays for, whether more or fewer than the others (30 rounds of 7 are more than the
        // 100 steps).
        if (&how == &iterations.front() && &where != &circumstances[1] &&
            &where != &circumstances[2]) {
          for (const Json& client : clients)
            CHECK(client.at("steps") == client.at("affordable_steps"));
        }
      }
    }
  }
}

TEST_CASE("a dropped client's model does not arrive, and its budget is spent",
          "[federated][privacy]") {
  Experiment kept(kBase), lost(kBase, {"federated.client_drop_rate=0.9"});
  kept.run();
  lost.run();
  CHECK(kept.parameters() != lost.parameters());
  const auto rounds = lines_of(lost.run_dir() / "rounds.jsonl");
  std::uint64_t dropped = 0;
  for (const Json& round : rounds) {
    dropped += round.at("dropped").get<std::uint64_t>();
    // The model and the number of steps go to each client; the model comes back from those that
    // were not lost.
    const std::uint64_t model = 4 * lost.plan().parameters;
    CHECK(round.at("bytes_down") == 4 * (model + 8));
    CHECK(round.at("bytes_up") == (4 - round.at("dropped").get<std::uint64_t>()) * model);
  }
  // 40 draws with probability 0.9: at most 20 has a probability below 1e-9.
  CHECK(dropped > 20);
  CHECK(ledgers(kept, 4)[2].releases.size() == ledgers(lost, 4)[2].releases.size());
}

TEST_CASE("a straggler makes a part of its steps, pays for that, and its model arrives",
          "[federated][privacy]") {
  Experiment experiment(kBase, {"federated.straggler_rate=0.6", "federated.local_iterations=5",
                                "federated.rounds=8"});
  experiment.run();
  const Json clients = clients_of(experiment);
  const auto books = ledgers(experiment, 4);
  std::uint64_t slow = 0;
  for (const Json& round : lines_of(experiment.run_dir() / "rounds.jsonl")) {
    slow += round.at("stragglers").get<std::uint64_t>();
    CHECK(round.at("stragglers") <= round.at("clients"));
    CHECK(round.at("bytes_up") == 4 * 4 * experiment.plan().parameters);  // all of them arrive
  }
  // 32 draws with probability 0.6: fewer than 5 has a probability below 1e-7.
  CHECK(slow >= 5);
  CHECK(slow < 32);
  std::uint64_t made = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto steps = clients[i].at("steps").get<std::uint64_t>();
    made += steps;
    CHECK(steps >= 8);  // at least one per round
    CHECK(steps <= books[i].releases.size());
  }
  CHECK(made < 4 * 40);  // at least one client made fewer than all steps
  CHECK(made >= 4 * 40 - 4 * slow);
  // The same steps without slow clients give another model.
  Experiment prompt(kBase, {"federated.local_iterations=5", "federated.rounds=8"});
  prompt.run();
  CHECK(prompt.parameters() != experiment.parameters());
  for (const Json& client : clients_of(prompt)) CHECK(client.at("steps") == 40);
}

TEST_CASE("the guarantee is that of the client with the largest epsilon", "[federated][privacy]") {
  // Equal batches from shards of different sizes: the smallest shard has the largest sampling rate.
  Experiment experiment(kBase, {"federated.partition={kind: dirichlet, alpha: 0.7, at_least: 20}",
                                "sampler={kind: poisson, batch_size: 15}"});
  const auto& plan = experiment.plan();
  const auto& clients = plan.federated->clients;
  std::size_t smallest = 0;
  for (std::size_t i = 1; i < clients.size(); ++i) {
    if (clients[i].rows.size() < clients[smallest].rows.size()) smallest = i;
  }
  CHECK(clients[plan.federated->weakest].rows.size() == clients[smallest].rows.size());
  for (const auto& client : clients) CHECK(client.plan->epsilon().value <= plan.epsilon().value);
  const auto result = experiment.run();
  double largest = 0.0;
  for (const auto& book : ledgers(experiment, 4))
    largest = std::max(largest, book.releases.back().epsilon);
  CHECK(result.epsilon.value == largest);
}

TEST_CASE("what is stated is what one client was charged for", "[federated][privacy]") {
  // The client with the largest rate takes part less often than another one, which is charged more.
  Experiment experiment(
      kBase, {"federated.partition={kind: dirichlet, alpha: 2, at_least: 20}",
              "sampler={kind: poisson, batch_size: 15}", "seed=2",
              "federated.participation={kind: poisson, sample_rate: 0.4}", "federated.rounds=6"});
  const std::size_t planned = experiment.plan().federated->weakest;
  const auto result = experiment.run();
  const auto books = ledgers(experiment, 4);
  std::size_t fullest = 0;
  for (std::size_t i = 1; i < books.size(); ++i) {
    if (books[i].releases.empty()) continue;
    if (books[fullest].releases.empty() ||
        books[i].releases.back().epsilon > books[fullest].releases.back().epsilon)
      fullest = i;
  }
  REQUIRE(fullest != planned);  // the setting is one where it matters
  CHECK(result.epsilon.value == books[fullest].releases.back().epsilon);
  const core::Plan& client = *experiment.plan().federated->clients[fullest].plan;
  const Json& mechanism = result.statement.at("mechanism");
  CHECK_THAT(mechanism.at("charged_as").get<std::string>(),
             ContainsSubstring(std::to_string(books[fullest].releases.size()) + " x Poisson"));
  // The stated charge costs the stated epsilon, by that client's plan for as many steps.
  CHECK(result.statement.at("charged_steps") == books[fullest].releases.size());
  const std::vector<core::Charge> charged(
      client.charges.begin(),
      client.charges.begin() + static_cast<std::ptrdiff_t>(books[fullest].releases.size()));
  CHECK(result.stated(experiment.plan()).charges.front().cost == charged.front().cost);
}

TEST_CASE("weights are public: by declared sizes, or equal", "[federated]") {
  Experiment sizes(kBase, {"data.size=402"});  // 101, 101, 100, 100 by the declared number
  CHECK_THAT(sizes.plan().federated->weights[0], WithinRel(101.0 / 402.0, 1e-12));
  CHECK(sizes.plan().federated->clients[0].plan->dataset_size == 101);
  CHECK(sizes.plan().federated->clients[0].rows.size() == 100);
  Experiment equal(kBase, {"federated.weights=equal"});
  CHECK(equal.plan().federated->weights == std::vector<double>(4, 0.25));
}

TEST_CASE("without noise, one local step a round is the mean gradient of all examples",
          "[federated]") {
  // Full batches and equal shards: the mean of the clients' steps is the step on all examples, up
  // to float32 rounding (40 steps).
  std::string central = kBase;
  central.erase(central.find("federated: {"));
  const std::vector<std::string> quiet{"privacy.noise=off", "sampler=full_batch",
                                       "privacy.adjacency=zero_out"};
  std::vector<std::string> many = quiet;
  for (const char* set : {"federated.local_iterations=1", "federated.rounds=40"})
    many.emplace_back(set);
  Experiment alone(central, quiet), federated(kBase, many);
  alone.run();
  federated.run();
  const auto a = alone.parameters(), b = federated.parameters();
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    CHECK_THAT(static_cast<double>(a[i]), WithinAbs(static_cast<double>(b[i]), 1e-4));
}

TEST_CASE("the last round is shortened to what the budget pays for, and said to be",
          "[federated]") {
  // With 7 steps per round, the budget does not pay for the last steps.
  Experiment experiment(kBase, {"federated.local_iterations=7", "steps=1000",
                                "federated.rounds=100", "privacy.target_epsilon=4"});
  const std::uint64_t affordable = experiment.plan().affordable_steps;
  REQUIRE(affordable % 7 != 0);
  REQUIRE(affordable < 700);
  const auto result = experiment.run();
  CHECK(result.steps == affordable);
  CHECK(result.status == core::RunStatus::budget_exhausted);
  const auto rounds = lines_of(experiment.run_dir() / "rounds.jsonl");
  REQUIRE(rounds.size() == affordable / 7 + 1);
  CHECK(rounds.back().at("local_iterations") == affordable % 7);
  std::uint64_t made = 0;
  for (const Json& round : rounds) made += round.at("local_iterations").get<std::uint64_t>();
  CHECK(made == affordable);
  // If that round is also the manifest's last one, the status still says that the budget ended the
  // run.
  Experiment exact(
      kBase, {"federated.local_iterations=7", "steps=1000",
              "federated.rounds=" + std::to_string(rounds.size()), "privacy.target_epsilon=4"});
  CHECK(exact.run().status == core::RunStatus::budget_exhausted);
}

TEST_CASE("what nobody is charged for is listed", "[federated][privacy]") {
  const auto listed = [](const std::vector<std::string>& set) {
    std::set<std::string> names;
    Experiment experiment(kBase, set);
    for (const auto& item : experiment.plan().unaccounted) names.insert(item.what);
    return names;
  };
  CHECK(listed({}).contains("partition of the examples (iid)"));  // the number of rows is private
  CHECK_FALSE(
      listed({"privacy.adjacency=zero_out", "sampler=full_batch", "schedules.noise_multiplier=40"})
          .contains("partition of the examples (iid)"));
  CHECK(listed({"federated.partition=shards", "privacy.adjacency=zero_out", "sampler=full_batch",
                "schedules.noise_multiplier=40"})
            .contains("partition of the examples (shards)"));
  CHECK(listed({"federated.partition={kind: dirichlet, alpha: 5}"})
            .contains("sizes of the clients' shards"));
  CHECK(listed({}).contains("label histograms of the clients"));
  CHECK_FALSE(
      listed({"federated.label_histograms=hidden"}).contains("label histograms of the clients"));
  CHECK(listed({kAli, "federated.estimates=unaccounted"})
            .contains("estimates of the clients' losses"));
  CHECK_FALSE(listed({kAli}).contains("estimates of the clients' losses"));
}

TEST_CASE("release mode: a real partition of private labels is refused, an even one is not",
          "[federated][privacy]") {
  std::string yaml = kBase;
  yaml.replace(yaml.find("seed: 1"), 7, "mode: release");
  const std::vector<std::string> base{"privacy.adjacency=zero_out", "sampler=full_batch",
                                      "schedules.noise_multiplier=40"};
  Experiment even(yaml, base);
  CHECK(even.plan().unaccounted.empty());
  CHECK(even.plan().federated->clients.front().labels.empty());
  std::vector<std::string> set = base;
  set.emplace_back("federated.partition=shards");
  CHECK_THROWS_AS(Experiment(yaml, set).plan(), PrivacyError);
}

namespace {

/// A client for each quadrant of the first two features: an example's own values determine its
/// client.
class Quadrants : public Transform, public Partition {
 public:
  explicit Quadrants(const Params&) {}
  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  void fit(Dataset&) override {}
  void apply(Dataset&) const override {}
  Statistic statistic() const override { return Statistic::none; }
  std::vector<std::uint32_t> clients_of(const Dataset& train, std::uint64_t,
                                        const RandomSource&) const override {
    std::vector<std::uint32_t> owners;
    std::vector<float> features(train.row_size()), target(1);
    for (std::uint32_t row = 0; row < train.rows(); ++row) {
      train.gather({&row, 1}, features, target);
      owners.push_back((features[0] > 0.0f ? 1u : 0u) + (features[1] > 0.0f ? 2u : 0u));
    }
    return owners;
  }
  std::vector<std::uint64_t> sizes(std::uint64_t, std::uint64_t,
                                   const RandomSource&) const override {
    return {};
  }
  bool looks_at_examples() const override { return true; }
  bool is_drawn() const override { return false; }
};

/// The same, but its author does not declare whether it is drawn.
class Silent final : public Quadrants {
 public:
  using Quadrants::Quadrants;
  bool is_drawn() const override { return Partition::is_drawn(); }
};

}  // namespace

TEST_CASE("release mode: shards that lie with real clients, of declared sizes",
          "[federated][privacy]") {
  std::string yaml = kBase;
  yaml.replace(yaml.find("seed: 1"), 7, "mode: release");
  const Catalog catalog = house_with({offer<Transform, Quadrants>("quadrants")});
  const std::vector<std::string> base{"federated.partition=quadrants", "data.size=400",
                                      "sampler={kind: poisson, batch_size: 15}"};
  const auto refusal = [&](const std::vector<std::string>& more) -> std::string {
    std::vector<std::string> set = base;
    set.insert(set.end(), more.begin(), more.end());
    try {
      Experiment(yaml, set, catalog).plan();
    } catch (const PrivacyError& error) {
      return error.what();
    }
    return "";
  };
  const std::string sizes = "federated.sizes=[100, 100, 120, 80]", given = "federated.shards=given";
  CHECK_THAT(refusal({}), ContainsSubstring("partition of the examples"));
  CHECK_THAT(refusal({}), ContainsSubstring("sizes of the clients' shards"));
  CHECK_THAT(refusal({given}), ContainsSubstring("sizes of the clients' shards"));
  CHECK_THAT(refusal({sizes}), ContainsSubstring("partition of the examples"));
  CHECK(refusal({sizes, given}).empty());
  // Rates and weights follow from declarations.
  std::vector<std::string> set = base;
  set.insert(set.end(), {sizes, given});
  Experiment experiment(yaml, set, catalog);
  const core::FederatedPlan& federated = *experiment.plan().federated;
  CHECK(federated.clients[2].plan->dataset_size == 120);
  CHECK_THAT(federated.weights[3], WithinRel(0.2, 1e-12));
}

TEST_CASE("sizes that are public are the real ones, or the run is refused before it pays",
          "[federated]") {
  Experiment experiment(kBase,
                        {"federated.partition={kind: dirichlet, alpha: 5, at_least: 20}",
                         "sampler={kind: poisson, batch_size: 15}", "privacy.adjacency=zero_out",
                         "federated.sizes=[100, 100, 100, 100]"});
  CHECK_THROWS_AS(experiment.plan(), core::ManifestError);
  CHECK_THROWS_WITH(experiment.plan(),
                    ContainsSubstring("federated.sizes: gives client 0 100 examples, and the data "
                                      "another number") &&
                        !ContainsSubstring("\n"));
}

TEST_CASE("fed_avg: each accountant's answer is about the client that costs most by it",
          "[federated][privacy]") {
  // Each client's noise is calibrated to one epsilon by rdp, so their epsilons by pld differ, and
  // which client costs most by rdp depends on the last digits.
  std::optional<Experiment> found;
  std::vector<double> by_pld;
  for (int seed = 1; seed < 20 && !found; ++seed) {
    found.emplace(kBase,
                  std::vector<std::string>{
                      "federated.clients=3", "privacy.also=[pld]", "seed=" + std::to_string(seed),
                      "federated.partition={kind: dirichlet, alpha: 0.2, at_least: 20}",
                      "sampler={kind: poisson, batch_size: 15}", "privacy.target_epsilon=4",
                      "schedules.noise_multiplier=uniform", "steps=30"});
    by_pld.clear();
    for (const core::ClientPlan& client : found->plan().federated->clients)
      by_pld.push_back(client.plan->accountants.at(1).epsilon.value);
    const double most = *std::max_element(by_pld.begin(), by_pld.end());
    if (!(by_pld[found->plan().federated->weakest] < 0.98 * most)) found.reset();
  }
  REQUIRE(found);
  Experiment& experiment = *found;
  const core::Plan& plan = experiment.plan();
  const auto most = std::max_element(by_pld.begin(), by_pld.end());
  CHECK(plan.accountants.at(1).epsilon.value == *most);
  experiment.run();
  const Json statement = Json::parse(read_file(experiment.run_dir() / "statement.json"));
  CHECK(statement.at("also").at(0).at("epsilon").get<double>() == *most);
  const auto verified = core::verify_run(core::RecordDirectory(experiment.run_dir()), house());
  CHECK(verified.problems.empty());
  const Json second = verified.accountants.at("privgrad.pld:pld");
  CHECK_THAT(second.at("epsilon").get<double>(), WithinRel(*most, 1e-9));
  // Each client's own delta at the stated point bounds what a membership test can find.
  const Json& test = statement.at("membership_test");
  for (const core::ClientPlan& client : plan.federated->clients) {
    const auto guard = core::make_guard(plan.manifest->accountant);
    guard->start(plan.manifest->adjacency);
    for (const core::Charge& charge : client.plan->charges) guard->compose(charge.cost, 1);
    const double delta = guard->delta(test.at("epsilon").get<double>()).value;
    CHECK(delta <= test.at("delta").get<double>() * (1.0 + 1e-12));
  }
}

TEST_CASE("shards that are drawn are not given, whatever the manifest says",
          "[federated][privacy]") {
  // Without one example, the underlying shuffle gives other examples to other clients.
  const Catalog catalog = house_with({offer<Transform, Silent>("silent")});
  for (const char* partition :
       {"iid", "shards", "{kind: dirichlet, alpha: 5, at_least: 20}", "silent"}) {
    for (const char* adjacency : {"add_or_remove_one", "zero_out"}) {
      INFO(partition << ", " << adjacency);
      Experiment experiment(kBase,
                            {std::string("federated.partition=") + partition,
                             "federated.shards=given", "sampler={kind: poisson, batch_size: 15}",
                             "data.size=400", std::string("privacy.adjacency=") + adjacency},
                            catalog);
      CHECK_THROWS_AS(experiment.plan(), core::ManifestError);
      CHECK_THROWS_WITH(experiment.plan(),
                        ContainsSubstring("--set federated.shards: error: federated.shards: is "
                                          "given, but partition ") &&
                            ContainsSubstring("by_column") && !ContainsSubstring("\n"));
    }
  }
}

TEST_CASE("what does not fit together is said in a line", "[federated]") {
  const auto refused = [](const std::vector<std::string>& set, const std::string& words) {
    INFO(words);
    Experiment experiment(kBase, set);
    CHECK_THROWS_WITH(experiment.plan(), ContainsSubstring(words));
  };
  refused({"federated.partition=flatten"}, "does not share them out");
  refused({"data.transforms=[iid]"}, "federated.partition");
  refused({"federated.clients=401"}, "without examples");
  refused({kAli, "federated.estimate_noise=0.3", "privacy.target_epsilon=2"},
          "does not pay for the 10 releases beside the steps (estimate)");
  // Beyond these bounds, sums in single precision overflow or lose small values.
  for (const char* bound : {"1e-44", "3e38"}) {
    refused(
        {"federated.aggregation=dp_fed_avg", std::string("federated.client_clip_norm=") + bound},
        "federated.client_clip_norm");
    refused({kAli, std::string("federated.estimate_bound=") + bound}, "federated.estimate_bound");
    refused({std::string("schedules.clip_norm=") + bound}, "allowed is [1e-20, 1e+28]");
  }
  // A missing key is reported at the section that lacks it.
  refused({"federated.clients=401"}, ":11:12: error: federated.partition: ");
  refused({"federated.local_iterations=2.5"}, "expected a whole number");
  refused({"federated.client_clip_norm=1"}, "only aggregation dp_fed_avg uses it");
  refused({"federated.aggregation=dp_fed_avg"}, "client_clip_norm: is missing");
  refused({"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1", kAli},
          "follows what single clients release");
  refused({"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
           "federated.weights=equal"},
          "only aggregation fed_avg uses it");
  refused({"output=random_iterate"}, "federated runs do not have");
  refused({"schedules.learning_rate={kind: ali_dpfl}"}, "federated.local_iterations");
  refused({"aggregator={kind: tree}", "sampler={kind: shuffle, batch_size: 10}",
           "privacy.accountant=zcdp", "privacy.adjacency=zero_out"},
          "begin anew with every round");
  refused({"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
           "privacy.accountant=zcdp", "privacy.adjacency=zero_out",
           "aggregator={kind: tree_reduced, momentum: 0.9, smoothness: 1, gamma: 0.3}"},
          "takes differences of the gradients of examples");
  refused({"federated.taus=3"}, "is unknown");
  refused({"federated.sizes=[200, 200]"}, "has 2 numbers for 4 clients");
  refused({"federated.sizes=[100, 100, 100, 100]"}, "the sizes follow from data.size");
  refused({kAli, "federated.estimate_share=0.2", "federated.estimate_noise=4"},
          "give one of the two");
  refused({"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
           "aggregator={kind: tree_reduced, momentum: 0.9, smoothness: 10}",
           "federated.server_learning_rate=0.1", "privacy.accountant=gdp",
           "privacy.adjacency=replace_one", "optimizer=normalized_sgd", "privacy.target_epsilon=50",
           "federated.participation={kind: shuffle, batch_size: 2, fresh: false}"},
          "differences of the gradients of examples");
  // Each round is charged, so each needs steps: 10 rounds of 3 are 30.
  refused({"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1", "steps=29"},
          "have 30 local steps");
  refused({kAli, "privacy.target_epsilon=null"}, "estimate_noise");
}

}  // namespace federated
