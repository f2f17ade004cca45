// A plan is a value: two plans of the same manifest are equal, copies are equal, and a run does not
// change its plan.
#include <filesystem>
#include <span>

#include "privgrad/federated/any_run.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/statement/outcome.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "test_components.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

constexpr const char* kPlanned = R"(privgrad: 1
name: base
seed: 1
data: {kind: synthetic, rows: 200, size: 200, test_rows: 0, dimensions: 3}
model: {kind: linear}
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: 20, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 12
)";

/// Every feature of a plan: adaptive noise, an adaptive clip norm, correlated noise, scaled
/// batches, clients.
const std::vector<std::vector<std::string>> kKindsOfPlans{
    {},
    {"schedules.noise_multiplier={kind: descent_check, initial: 20, every: 5, "
     "loss_bound: 2, check_noise_multiplier: 30}"},
    {"clipping=adaptive", "schedules.noise_multiplier=uniform"},
    {"aggregator={kind: tree}", "sampler={kind: shuffle, batch_size: 20}"},
    {"sampler=poisson", "privacy.accountant=rdp", "schedules.noise_multiplier=2",
     "schedules.batch_size={kind: list, values: [10.1, 11.2, 12.3, 13.4, 14.5, 15.6, 16.7, 17.8, "
     "18.9, 19, 20, 21]}"},
    {"federated={clients: 4, rounds: 3, local_iterations: 4}"},
    {"federated={clients: 4, rounds: 3, local_iterations: 4, aggregation: dp_fed_avg, "
     "client_clip_norm: 1, participation: full_batch}"}};

}  // namespace

TEST_CASE("plans of the same manifest are equal, and of another one are not", "[plan]") {
  for (const auto& kind : kKindsOfPlans) {
    INFO((kind.empty() ? "" : kind.front()));
    Experiment one(kPlanned, kind), two(kPlanned, kind);
    std::vector<std::string> longer = kind;
    longer.push_back("schedules.clip_norm=2");
    Experiment other(kPlanned, longer);
    const core::PlanNumbers& numbers = one.plan();
    CHECK(numbers == two.plan());
    CHECK(numbers == core::PlanNumbers(one.plan()));
    if (!one.plan().federated) CHECK_FALSE(numbers == other.plan());
  }
}

TEST_CASE("a run leaves its plan as it was, so that it can be run again", "[plan]") {
  for (const auto& kind : kKindsOfPlans) {
    INFO((kind.empty() ? "" : kind.front()));
    Experiment experiment(kPlanned, kind);
    const core::PlanNumbers before = experiment.plan();
    const auto first = experiment.run();
    CHECK(before == experiment.plan());
    // A seed's randomness is addressed by counters, so a second run of the plan equals the first.
    const core::RunResult second = core::run(
        experiment.plan(),
        {.directory = experiment.dir() / "again", .lock = "", .threads = 1, .on_progress = {}});
    CHECK(first.statement == second.statement);
    CHECK(read_file(experiment.run_dir() / "model.safetensors") ==
          read_file(experiment.dir() / "again" / "model.safetensors"));
  }
}

TEST_CASE("components that are started for a plan charge what was planned", "[plan][privacy]") {
  for (const auto& kind : kKindsOfPlans) {
    INFO((kind.empty() ? "" : kind.front()));
    Experiment experiment(kPlanned, kind);
    const core::Plan& whole = experiment.plan();
    const bool of_clients = whole.federated && !whole.federated->at_server;
    const core::Plan& plan = of_clients ? *whole.federated->clients.front().plan : whole;
    const core::Components made = core::start_components(plan);
    for (std::uint64_t step = 0; step < plan.steps(); ++step)
      REQUIRE(made.sampler->expected_batch_size(step) == plan.batch_size[step]);
    if (plan.correlated) continue;  // charged as one mechanism
    const auto releases = core::release_events(*made.aggregator, plan.steps());
    const auto costs = made.sampler->charges(releases);
    REQUIRE(costs.size() == plan.charges.size());
    for (std::size_t step = 0; step < costs.size(); ++step)
      CHECK(costs[step] == plan.charges[step].cost);
  }
}

namespace {

/// The first instance, which plans, charges each step in full; later ones charge nothing.
class FickleSampler final : public Sampler {
 public:
  explicit FickleSampler(const Params&) : is_first_(made++ == 0) {}
  void start(const SamplingPlan& plan) override { size_ = plan.dataset_size; }
  double expected_batch_size(std::uint64_t) const override { return static_cast<double>(size_); }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    if (is_first_) return {releases.begin(), releases.end()};
    return std::vector<Event>(releases.size(), Event::zcdp(1e-6));
  }
  void sample(std::uint64_t, std::size_t rows, const RandomSource&,
              std::vector<std::uint32_t>& batch) override {
    batch.clear();
    for (std::size_t row = 0; row < rows; ++row) batch.push_back(static_cast<std::uint32_t>(row));
  }
  inline static int made = 0;

 private:
  bool is_first_;
  std::uint64_t size_ = 0;
};

}  // namespace

TEST_CASE("a sampler whose instances charge differently does not run", "[plan][privacy]") {
  FickleSampler::made = 0;
  const Catalog catalog = house_with({offer<Sampler, FickleSampler>("fickle")});
  Experiment experiment(kPlanned, {"sampler=fickle"}, catalog);
  REQUIRE(experiment.plan().charges.front().cost == experiment.plan().charges.front().release);
  CHECK_THROWS_AS(experiment.run(), PluginError);
  CHECK_FALSE(std::filesystem::exists(experiment.run_dir() / "ledger.jsonl"));
}

namespace {

/// Draws all rows in every batch, with the given charges.
class GenerousSampler final : public Sampler {
 public:
  explicit GenerousSampler(const Params&) {}
  void start(const SamplingPlan& plan) override { size_ = plan.dataset_size; }
  double expected_batch_size(std::uint64_t) const override { return static_cast<double>(size_); }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> costs;
    for (const Event& release : releases) costs.push_back(charge(release));
    return costs;
  }
  void sample(std::uint64_t, std::size_t, const RandomSource&,
              std::vector<std::uint32_t>& batch) override {
    batch.clear();
  }
  inline static std::function<Event(const Event&)> charge;

 private:
  std::uint64_t size_ = 0;
};

}  // namespace

TEST_CASE("a sampler whose charges are less than one step costs is named", "[plan][privacy]") {
  const Catalog catalog = house_with({offer<Sampler, GenerousSampler>("generous")});
  const auto plan_with = [&](std::function<Event(const Event&)> charge,
                             const std::string& accountant) {
    GenerousSampler::charge = std::move(charge);
    Experiment experiment(kPlanned,
                          {"sampler=generous", "privacy.accountant=" + accountant,
                           "privacy.target_epsilon=null", "schedules.noise_multiplier=2"},
                          catalog);
    return experiment.plan().epsilon().value;
  };
  const double full = plan_with([](const Event& release) { return release; }, "zcdp");
  CHECK(full > 0.0);
  const auto nothing = [](const Event&) { return Event::nothing(); };
  for (const auto& [charge, says] :
       std::vector<std::pair<std::function<Event(const Event&)>, std::string>>{
           {nothing, "charges nothing for the first release"},
           {[](const Event&) { return Event::zcdp(0.0); }, "one step alone has a delta"},
           {[](const Event&) { return Event::gaussian(1e9); }, "one step alone has a delta"},
           {[](const Event& release) { return Event::poisson_sampled(0.001, release); },
            "one step alone has a delta"}}) {
    INFO(says);
    CHECK_THROWS_AS(plan_with(charge, "rdp"), PluginError);
    CHECK_THROWS_WITH(plan_with(charge, "rdp"),
                      ContainsSubstring("generous") && ContainsSubstring(says));
  }
}

TEST_CASE("an outcome states the charges of the client that it names, and nothing else of it",
          "[plan][privacy]") {
  Experiment experiment(kPlanned, {"federated={clients: 2, rounds: 3, local_iterations: 4, "
                                   "partition: {kind: dirichlet, alpha: 1, at_least: 20}}",
                                   "data.size=null", "sampler={kind: poisson, batch_size: 10}",
                                   "privacy.accountant=rdp", "schedules.noise_multiplier=2"});
  const core::Plan& plan = experiment.plan();
  // the client with fewer examples, for which a batch of 10 is a larger share
  REQUIRE(plan.federated->weakest == 0);
  core::Outcome outcome = core::outcome_of_all(plan);
  CHECK(outcome.stated(plan) == plan);
  outcome.client = 1;
  const core::PlanNumbers stated = outcome.stated(plan);
  CHECK(stated.charges == plan.federated->clients[1].plan->charges);
  CHECK(stated.accountants.front() == plan.federated->clients[1].plan->accountants.front());
  CHECK(stated.dataset_size == 200);
  CHECK(stated.epsilon().value < plan.epsilon().value);
}
