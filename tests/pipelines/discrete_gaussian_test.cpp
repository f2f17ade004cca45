#include <cmath>
#include <nlohmann/json.hpp>

#include "train.hpp"

using namespace privgrad;

namespace {

/// Full batches of two clusters with noise on a grid; each test changes a line or two.
constexpr const char* kDiscreteNoise = R"(privgrad: 1
name: base
seed: 1
data: {kind: synthetic, rows: 200, test_rows: 50, dimensions: 10, test_is_public: true, size: 200}
model: {kind: mlp, hidden: [8]}
sampler: full_batch
aggregator: {kind: discrete_gaussian, grid_levels: 1024}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2.0, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: {kind: zcdp, conversion: classic}, also: [rdp]}
steps: 20
)";

double classic_epsilon(double rho) { return rho + 2.0 * std::sqrt(rho * std::log(1e5)); }

}  // namespace

TEST_CASE("discrete noise costs what its closed form says, and the ledger shows it",
          "[run][discrete][privacy]") {
  struct Case {
    const char* adjacency;
    double rho;  // of a step: (Delta / sigma)^2 / 2 with sigma = 2048 cells
  };
  for (const auto& [adjacency, rho] :
       {Case{"zero_out", 0.125}, Case{"add_or_remove_one", 0.125}, Case{"replace_one", 0.5}}) {
    Experiment experiment(kDiscreteNoise, {std::string("privacy.adjacency=") + adjacency});
    const auto result = experiment.run();
    CHECK(result.status == core::RunStatus::completed);
    CHECK_THAT(result.epsilon.value, WithinRel(classic_epsilon(20 * rho), 1e-12));
    CHECK(result.epsilon.value >= classic_epsilon(20 * rho) * (1 - 1e-15));
    const auto ledger = experiment.ledger();
    REQUIRE(ledger.releases.size() == 20);
    for (const auto& release : ledger.releases) {
      CHECK(release.event.at("event") == "zcdp");
      CHECK_THAT(release.event.at("rho").get<double>(), WithinRel(rho, 1e-14));
    }
    CHECK(ledger.facts.at("aggregator") == "privgrad.discrete_gaussian:discrete_gaussian");
    CHECK(result.statement.at("arithmetic") == "integer_grid");
  }
}

TEST_CASE("discrete noise costs as much as continuous noise in zCDP, and learns as well",
          "[run][discrete]") {
  Experiment discrete(kDiscreteNoise, {"aggregator=discrete_gaussian", "steps=60"});
  Experiment continuous(kDiscreteNoise, {"aggregator=gaussian", "steps=60"});
  CHECK_THAT(discrete.plan().epsilon().value, WithinRel(continuous.plan().epsilon().value, 1e-12));
  CHECK(core::to_json(discrete.plan()).at("grid_levels") == 1 << 24);
  CHECK(!core::to_json(continuous.plan()).contains("grid_levels"));
  CHECK(discrete.run().metrics.test_accuracy.value() > 0.95);
  CHECK(continuous.run().metrics.test_accuracy.value() > 0.95);
}

TEST_CASE("schedules are calibrated through the grid, and the noise is never less than promised",
          "[plan][discrete][privacy]") {
  for (const char* shape : {"uniform", "{kind: exponential, rate: 0.1}"}) {
    for (const char* levels : {"16", "16777216"}) {
      Experiment experiment(kDiscreteNoise, {std::string("schedules.noise_multiplier=") + shape,
                                             std::string("aggregator.grid_levels=") + levels,
                                             "privacy.target_epsilon=2"});
      const auto& plan = experiment.plan();
      CHECK(plan.epsilon().value <= 2.0);
      CHECK(plan.affordable_steps == 20);
      const double cells = std::stod(levels);
      double rho = 0.0;
      for (std::size_t t = 0; t < plan.charges.size(); ++t) {
        const double charged = std::get<ZcdpEvent>(plan.charges[t].release.kind()).rho;
        const double sigma = std::sqrt(0.5 / charged) * cells;  // in cells, as charged
        CHECK_THAT(sigma, WithinAbs(std::round(sigma), 1e-6 * sigma));
        CHECK(std::round(sigma) >= plan.noise_multiplier[t] * cells);
        CHECK(std::round(sigma) < plan.noise_multiplier[t] * cells + 1.0);
        rho += charged;
      }
      // A coarse grid has few sizes of noise to choose from, a fine one meets the target.
      CHECK(classic_epsilon(rho) <= 2.0);
      if (cells > 1e6) CHECK(classic_epsilon(rho) > 2.0 * (1 - 1e-6));
    }
  }
}

TEST_CASE("runs on the grid are the same on any number of threads", "[run][discrete]") {
  Experiment one(kDiscreteNoise), two(kDiscreteNoise);
  one.run(1);
  two.run(2);
  CHECK(one.parameters() == two.parameters());
}

TEST_CASE("every clipping that is one release works on the grid", "[run][discrete]") {
  const std::string name = GENERATE("flat", "per_layer", "automatic", "normalized");
  Experiment experiment(kDiscreteNoise, {"clipping=" + name, "steps=60"});
  const auto result = experiment.run();
  CHECK(result.status == core::RunStatus::completed);
  CHECK(result.metrics.test_accuracy.value() > 0.9);
}

TEST_CASE("adaptive clipping is refused on the grid, with its place", "[plan][discrete]") {
  Experiment experiment(kDiscreteNoise, {"clipping=adaptive"});
  CHECK_THROWS_WITH(experiment.plan(), ContainsSubstring("--set clipping") &&
                                           ContainsSubstring("aggregator discrete_gaussian"));
}

TEST_CASE("sampling does not amplify discrete noise: nothing is proved",
          "[plan][discrete][privacy]") {
  const std::string accountant = GENERATE("zcdp", "rdp", "pld");
  const std::vector<std::string> sampled{"sampler={kind: poisson, batch_size: 50}",
                                         "privacy.also=[]", "privacy.accountant=" + accountant};
  Experiment refused(kDiscreteNoise, sampled);
  CHECK_THROWS_AS(refused.plan(), PrivacyError);
}

TEST_CASE("sampled batches are charged in full", "[run][discrete][privacy]") {
  Experiment experiment(kDiscreteNoise,
                        {"sampler={kind: poisson, batch_size: 50, amplification: false}"});
  CHECK_THAT(experiment.run().epsilon.value, WithinRel(classic_epsilon(2.5), 1e-12));
}
