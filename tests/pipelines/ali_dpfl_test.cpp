// Federated runs whose local iterations depend on releases, and their cost.
#include <algorithm>

#include "federated.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/trust/certified_accountant.hpp"
#include "privgrad/trust/event_json.hpp"
#include "test_components.hpp"

namespace federated {

namespace {

/// Chooses one step per round, whatever it receives.
class WatchedIterations final : public Schedule, public AdaptiveLocalIterations {
 public:
  static inline std::vector<bool> seen;  // whether a round had estimates of the previous one

  explicit WatchedIterations(const Params&) {}
  void start(const Horizon&) override {}
  double value(std::uint64_t) const override { return 1.0; }
  bool is_shape() const override { return false; }
  bool start_rounds(std::uint64_t, std::uint64_t) override { return true; }
  std::uint64_t next(const FederatedProgress& progress) override {
    seen.push_back(progress.divergence.has_value());
    return 1;
  }
};

const Catalog& watching_iterations() {
  static const Catalog catalog =
      house_with({offer<Schedule, WatchedIterations>("watched_iterations")});
  return catalog;
}

}  // namespace

TEST_CASE("ali_dpfl: both budgets hold, and the last round is shortened", "[federated][ali]") {
  Experiment experiment(
      kBase, {kAli, "steps=1000", "federated.rounds=20", "federated.estimates=from_models"});
  const auto& plan = experiment.plan();
  REQUIRE(plan.affordable_steps > 20);
  const auto result = experiment.run();
  const auto rounds = lines_of(experiment.run_dir() / "rounds.jsonl");
  CHECK(rounds.size() <= 20);
  CHECK(result.steps <= plan.affordable_steps);
  CHECK(rounds.front().at("local_iterations") == 1);
  std::uint64_t last = 1;
  for (const Json& round : rounds) {
    const auto now = round.at("local_iterations").get<std::uint64_t>();
    CHECK(now <= std::min<std::uint64_t>(2 * last, 100));
    last = now;
  }
  if (rounds.size() < 20) CHECK(result.steps == plan.affordable_steps);
  // The stated epsilon is the cost of all affordable steps, however many were made; the total of
  // the ledgers so far has another name, even during the run.
  CHECK(result.epsilon.value == plan.epsilon().value);
  CHECK(result.statement.at("accounted_steps") == plan.affordable_steps);
  CHECK(result.statement.at("charged_steps") >= result.steps);
  for (const Json& line : lines_of(experiment.run_dir() / "metrics.jsonl")) {
    CHECK(line.at("epsilon") == plan.epsilon().value);
    CHECK(line.at("charged_epsilon") <= plan.epsilon().value);
  }
}

TEST_CASE("even: all steps that the budget pays for are made, and no estimates are paid for",
          "[federated][ali]") {
  Experiment experiment(kBase,
                        {"federated.local_iterations=even", "steps=1000", "federated.rounds=20"});
  const auto& plan = experiment.plan();
  REQUIRE(plan.affordable_steps > 20);
  CHECK_FALSE(plan.federated->estimates);
  const auto result = experiment.run();
  const auto rounds = lines_of(experiment.run_dir() / "rounds.jsonl");
  CHECK(rounds.size() == 20);
  CHECK(result.steps == plan.affordable_steps);
  const std::uint64_t mean = plan.affordable_steps / 20;
  for (const Json& round : rounds) {
    const auto now = round.at("local_iterations").get<std::uint64_t>();
    CHECK((now == mean || now == mean + 1));
  }
  // The estimates of ali_dpfl use their share of the same budget.
  CHECK(Experiment(kBase, {kAli, "steps=1000", "federated.rounds=20"}).plan().affordable_steps <
        plan.affordable_steps);
}

TEST_CASE("what is claimed of steps that may not be made is an upper bound, without a lower one",
          "[federated][ali][privacy]") {
  const auto statement_of = [](const std::vector<std::string>& more) {
    std::vector<std::string> set{"privacy.accountant=pld", "schedules.noise_multiplier=4"};
    set.insert(set.end(), more.begin(), more.end());
    return Experiment(kBase, set).run().statement;
  };
  const Json fixed = statement_of({});
  CHECK(fixed.at("lower").is_number());  // for a known number of steps: pld proves both bounds
  CHECK(fixed.at("accounted_steps") == fixed.at("charged_steps"));
  // Ten rounds cannot use up the budget of 2000 steps.
  const Json chosen = statement_of({kAli, "steps=2000", "federated.estimates=from_models"});
  REQUIRE(chosen.at("charged_steps") < chosen.at("accounted_steps"));
  CHECK(chosen.at("lower").is_null());
  CHECK(chosen.at("bound") == "upper");
  const std::string prose = chosen.at("prose").dump();
  CHECK_THAT(prose,
             ContainsSubstring(chosen.at("accounted_steps").dump() + " steps of the client"));
  CHECK_THAT(prose, ContainsSubstring("releases decided when that was"));
  CHECK(fixed.at("prose").dump().find("releases decided") == std::string::npos);
}

TEST_CASE("a federated run that diverges is accounted for in full", "[federated][privacy]") {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{},
        {"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1e10",
         "federated.server_learning_rate=1e38"}}) {
    std::vector<std::string> set{"schedules.learning_rate=1e38", "schedules.clip_norm=1e10"};
    set.insert(set.end(), more.begin(), more.end());
    Experiment experiment(kBase, set);
    const PrivacyAnswer planned = experiment.plan().epsilon();
    const auto result = experiment.run();
    REQUIRE(result.status == core::RunStatus::diverged);
    CHECK(result.epsilon.value == planned.value);
    CHECK_FALSE(result.epsilon.lower.has_value());
    CHECK(result.statement.at("accounted_steps") == experiment.plan().affordable_steps);
    // With fed_avg each client has a ledger and an event; with dp_fed_avg the server has the run's
    // ledger and event.
    const core::Plan& plan = experiment.plan();
    CHECK(result.summary.at("accounted_event") ==
          (plan.federated->at_server ? core::to_json(plan.event) : nlohmann::json(nullptr)));
  }
}

TEST_CASE("ali_dpfl: rounds enough for every step: one step each, and nothing is estimated",
          "[federated][ali]") {
  Experiment experiment(kBase, {kAli, "federated.rounds=50"});
  CHECK_FALSE(experiment.plan().federated->estimates);
  CHECK(experiment.plan().beside.empty());
  experiment.run();
  for (const Json& round : lines_of(experiment.run_dir() / "rounds.jsonl"))
    CHECK(round.at("local_iterations") == 1);
}

TEST_CASE("ali_dpfl: a client with a small budget need not slow down the others",
          "[federated][ali]") {
  // A batch of 10 is a larger part of a small shard, whose client's budget therefore ends earlier.
  const auto paced_by = [](const std::string& pace) {
    return std::vector<std::string>{
        kAli,
        "steps=1000",
        "federated.rounds=200",
        "sampler={kind: poisson, batch_size: 10}",
        "federated.estimates=from_models",
        "federated.partition={kind: dirichlet, alpha: 0.7, at_least: 20}",
        "federated.paced_by=" + pace};
  };
  const auto most_iterations = [](const Experiment& experiment) {
    std::uint64_t most = 0;
    for (const Json& round : lines_of(experiment.run_dir() / "rounds.jsonl"))
      most = std::max(most, round.at("local_iterations").get<std::uint64_t>());
    return most;
  };
  Experiment smallest(kBase, paced_by("smallest_budget"));
  REQUIRE(smallest.plan().federated->affordable_steps <= 200);
  REQUIRE(smallest.plan().federated->most_affordable_steps > 400);
  const Json slowed = smallest.run().statement;
  CHECK(most_iterations(smallest) == 1);
  CHECK_THAT(slowed.at("remarks").dump(), ContainsSubstring("federated.paced_by: largest_budget"));

  Experiment largest(kBase, paced_by("largest_budget"));
  const Json free = largest.run().statement;
  CHECK(most_iterations(largest) > 1);
  CHECK(free.at("remarks").dump().find("paced_by") == std::string::npos);
  CHECK(free.at("epsilon") == slowed.at("epsilon"));
  const auto books = ledgers(largest, 4);
  for (std::size_t i = 0; i < books.size(); ++i) {
    const core::Plan& client = *largest.plan().federated->clients[i].plan;
    CHECK(books[i].releases.size() <= client.affordable_steps);
    CHECK(books[i].releases.back().epsilon <= client.epsilon().value);
  }
}

TEST_CASE("ali_dpfl: estimates that would leave no more steps than rounds are not bought",
          "[federated][ali]") {
  // With half of the budget for estimates, fewer than 100 steps are left, for which 100 rounds are
  // enough; without estimates the budget pays for more than 100 steps, and each round has a step.
  const std::vector<std::string> set{kAli, "steps=1000", "federated.rounds=100",
                                     "federated.estimate_share=0.5"};
  Experiment free(kBase,
                  {kAli, "steps=1000", "federated.rounds=100", "federated.estimates=from_models"});
  REQUIRE(free.plan().affordable_steps > 100);
  Experiment experiment(kBase, set);
  const auto& plan = experiment.plan();
  CHECK_FALSE(plan.federated->estimates);
  CHECK(plan.beside.empty());
  CHECK(plan.affordable_steps == 100);
  experiment.run();
  const auto rounds = lines_of(experiment.run_dir() / "rounds.jsonl");
  CHECK(rounds.size() == 100);
  for (const Json& round : rounds) CHECK(round.at("local_iterations") == 1);
  for (const Json& client : clients_of(experiment)) CHECK(client.at("estimates") == 0);
}

TEST_CASE("ali_dpfl: what a round does not show, the schedule is not told again",
          "[federated][ali]") {
  WatchedIterations::seen.clear();
  std::string yaml = kBase;
  yaml.replace(yaml.find("local_iterations: 3"), 19, "local_iterations: watched_iterations");
  const core::Manifest manifest = core::parse_manifest(
      yaml, "/nowhere/m.yaml", {"federated.client_drop_rate=0.7"}, watching_iterations());
  const core::Plan plan = core::make_plan(manifest);
  const TempDir dir;
  core::run(plan, {.directory = dir.path() / "run", .lock = "", .threads = 1, .on_progress = {}});
  const auto rounds = lines_of(dir.path() / "run/rounds.jsonl");
  REQUIRE(WatchedIterations::seen.size() == rounds.size());
  std::size_t silent = 0;
  for (std::size_t i = 1; i < rounds.size(); ++i) {
    const bool arrived = rounds[i - 1].at("dropped") < rounds[i - 1].at("clients");
    CHECK(WatchedIterations::seen[i] == arrived);
    silent += arrived ? 0 : 1;
  }
  CHECK(silent > 0);
}

TEST_CASE("private estimates cost what their share says, and leave fewer steps",
          "[federated][ali][privacy]") {
  const std::vector<std::string> base{kAli, "steps=1000", "federated.rounds=20"};
  const auto with = [&](const char* more) {
    std::vector<std::string> set = base;
    set.emplace_back(more);
    return Experiment(kBase, set).plan().affordable_steps;
  };
  const std::uint64_t free = with("federated.estimates=from_models");
  CHECK(with("federated.estimates=unaccounted") == free);
  const std::uint64_t little = with("federated.estimate_share=0.1");
  const std::uint64_t much = with("federated.estimate_share=0.5");
  CHECK(much < little);
  CHECK(little < free);
  Experiment experiment(kBase, base);
  CHECK(experiment.plan().beside.size() == 20);
  CHECK(experiment.plan().epsilon().value <= 6.0);
  // By themselves the estimates cost their share of the target, except for the tolerance of
  // calibration.
  for (const double share : {0.1, 0.5}) {
    std::vector<std::string> set = base;
    set.push_back("federated.estimate_share=" + std::to_string(share));
    Experiment one(kBase, set);
    const core::Plan& plan = one.plan();
    const auto accountant = core::make_accountant(plan.manifest->accountant);
    accountant->start(plan.manifest->adjacency);
    for (const core::Charge& charge : plan.beside) accountant->compose(charge.cost, 1);
    const double cost = accountant->epsilon(1e-5).value;
    CHECK(cost <= share * 6.0);
    CHECK(cost > 0.999 * share * 6.0);
  }
}

}  // namespace federated
