// Runs whose steps subtract noise of earlier steps.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "privgrad/train/checkpoints.hpp"
#include "train.hpp"
#include "verify.hpp"
#include "wrapped_backend.hpp"

using namespace privgrad;

namespace {

constexpr const char* kMatrix = R"(privgrad: 1
name: matrix
seed: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 5, test_is_public: true}
model: {kind: linear}
sampler: {kind: shuffle, batch_size: 10, fresh: false}
aggregator: {kind: matrix, bands: 3}
optimizer: {kind: momentum, beta: 0.9}
schedules: {clip_norm: 1.0, learning_rate: 0.05}
privacy: {target_epsilon: 4, target_delta: 1e-5, adjacency: replace_one, accountant: gdp}
steps: 18
)";

using Overrides = std::vector<std::string>;

std::string refusal(const Overrides& set) {
  try {
    Experiment(kMatrix, set).plan();
  } catch (const Error& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_CASE("matrix: a run is calibrated to its target, charged ahead, exact and verified",
          "[matrix][privacy]") {
  Experiment experiment(kMatrix);
  const core::Plan& plan = experiment.plan();
  CHECK(plan.epsilon().value <= 4.0);
  CHECK(plan.epsilon().value > 4.0 * (1.0 - 1e-6));
  CHECK(plan.epsilon().bound == BoundKind::exact);
  REQUIRE(plan.correlated);
  CHECK(plan.correlated->parts.front().recipes.window() == 2);
  experiment.run();
  CHECK(experiment.ledger().releases.size() == 18);
  CHECK(verify::problems_of(experiment).empty());
  // A step has more noise than independent noise for the same target, but sums have less.
  Experiment independent(kMatrix, {"aggregator=gaussian"});
  CHECK(plan.noise_multiplier.front() > independent.plan().noise_multiplier.front());
}

TEST_CASE("matrix: the same bits on any number of threads, with every part of a step",
          "[matrix][privacy]") {
  for (const Overrides& set : std::vector<Overrides>{
           {},
           {"aggregator={kind: matrix, strategy: bisr, bands: 5}"},
           {"clipping={kind: adaptive, quantile: 0.5}"},
           {"schedules.noise_multiplier={kind: exponential, initial: 3, rate: 0.05}",
            "privacy.target_epsilon=null"},
           {"sampler={kind: sequential, batch_size: 10}", "privacy.adjacency=zero_out"}}) {
    INFO((set.empty() ? "" : set.front()));
    Experiment alone(kMatrix, set), together(kMatrix, set);
    alone.run(1);
    together.run(3);
    CHECK(alone.parameters() == together.parameters());
    CHECK(verify::problems_of(together).empty());
  }
}

TEST_CASE("matrix: what was optimised is kept with the run, and planned with again",
          "[matrix][privacy]") {
  Experiment experiment(kMatrix);
  experiment.run();
  const auto file = experiment.run_dir() / "facts.json";
  auto facts = nlohmann::json::parse(read_file(file));
  REQUIRE(facts.at("optimized").size() == 3);
  CHECK(facts.at("optimized").at(0) == 1.0);
  CHECK(facts.at("optimized").at(1).get<double>() < 0.0);
  CHECK(experiment.plan().setting->kept->optimized() ==
        facts.at("optimized").get<std::vector<double>>());
  // Different numbers have a different cost from the charges in the ledger.
  facts["optimized"][1] = -0.9;
  write_file(file, facts.dump());
  CHECK_FALSE(verify::problems_of(experiment).empty());
  facts.erase("optimized");
  write_file(file, facts.dump());
  CHECK_FALSE(verify::problems_of(experiment).empty());
}

TEST_CASE("matrix: the keys of a run that can be resumed follow what was optimised",
          "[matrix][resume][privacy]") {
  Experiment experiment(kMatrix);
  const core::Plan& plan = experiment.plan();
  core::Plan other = plan;
  REQUIRE(other.optimized.size() == 3);
  CHECK(core::Checkpoints::bound_to(other, "", {}) == core::Checkpoints::bound_to(plan, "", {}));
  other.optimized[2] += 1e-9;
  CHECK(core::Checkpoints::bound_to(other, "", {}) != core::Checkpoints::bound_to(plan, "", {}));
}

TEST_CASE("matrix: without noise a run is one without correlated noise", "[matrix]") {
  Experiment matrix(kMatrix, {"privacy.noise=off"});
  Experiment plain(kMatrix, {"privacy.noise=off", "aggregator=gaussian"});
  matrix.run();
  plain.run();
  CHECK(matrix.parameters() == plain.parameters());
}

namespace {

constexpr const char* kBanded = R"(privgrad: 1
name: banded
seed: 1
data: {kind: synthetic, rows: 120, test_rows: 20, dimensions: 5, test_is_public: true}
model: {kind: linear}
sampler: {kind: cyclic_poisson, batch_size: 6, cycle: 4}
aggregator: {kind: matrix, form: banded, bands: 3}
optimizer: {kind: momentum, beta: 0.9}
schedules: {clip_norm: 1.0, learning_rate: 0.05}
privacy: {target_epsilon: 4, target_delta: 1e-5, adjacency: zero_out, accountant: pld}
steps: 26
)";

std::string banded_refusal(const Overrides& set) {
  try {
    Experiment(kBanded, set).plan();
  } catch (const Error& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_CASE("matrix, banded: a cycle is charged as one sampled release of the strategy's noise",
          "[matrix][banded][privacy]") {
  Experiment experiment(kBanded);
  const core::Plan& plan = experiment.plan();
  CHECK(plan.epsilon().value <= 4.0);
  CHECK(plan.epsilon().value > 4.0 * (1.0 - 1e-5));
  CHECK(plan.public_order() == nullptr);
  // The required charge, computed from the stored coefficients: c, and then a.
  REQUIRE(plan.optimized.size() == 3 + 6);
  const std::vector<double> c(plan.optimized.begin(), plan.optimized.begin() + 3);
  const std::vector<double> a(plan.optimized.begin() + 3, plan.optimized.end());
  double squares = 0.0, rho = 0.0;
  for (const double x : c) squares += x * x;
  for (std::size_t n = 1; n < 8; ++n) {
    double entry = 0.0;
    for (std::size_t i = 0; i < 3 && i <= n; ++i) entry += n - i < 6 ? c[i] * a[n - i] : 0.0;
    rho += std::fabs(entry);
  }
  const double expected = plan.noise_multiplier.front() * (1.0 - rho) / std::sqrt(squares);
  for (const core::Charge& charge : plan.charges) {
    CHECK(charge.release == Event::gaussian(plan.noise_multiplier.front()));
    if (charge.step % 4 != 0) {
      CHECK(charge.cost == Event::nothing());
      continue;
    }
    const auto* sampled = std::get_if<PoissonSampledEvent>(&charge.cost.kind());
    REQUIRE(sampled != nullptr);
    CHECK(sampled->sampling_probability == 0.2);
    const auto* gaussian = std::get_if<GaussianEvent>(&sampled->of->kind());
    REQUIRE(gaussian != nullptr);
    CHECK_THAT(gaussian->noise_multiplier, WithinRel(expected, 1e-12));
  }
  experiment.run();
  CHECK(experiment.ledger().releases.size() == 26);
  CHECK(verify::problems_of(experiment).empty());
}

TEST_CASE("matrix, banded: the same bits on any number of threads, and with decaying noise",
          "[matrix][banded][privacy]") {
  for (const Overrides& set : std::vector<Overrides>{
           {},
           {"aggregator={kind: matrix, form: banded, strategy: bsr, bands: 4}"},
           {"clipping={kind: adaptive, quantile: 0.5}"},
           {"schedules.noise_multiplier={kind: exponential, initial: 3, rate: 0.1}",
            "privacy.target_epsilon=null"},
           {"sampler={kind: cyclic_poisson, batch_size: 30, cycle: 4}",
            "privacy.adjacency=replace_one", "privacy.accountant=rdp"}}) {
    INFO((set.empty() ? "" : set.front()));
    Experiment alone(kBanded, set), together(kBanded, set);
    alone.run(1);
    together.run(3);
    CHECK(alone.parameters() == together.parameters());
    CHECK(verify::problems_of(together).empty());
  }
}

TEST_CASE("matrix, banded: with decaying noise the last group of a cycle is what it is charged for",
          "[matrix][banded][privacy]") {
  Experiment experiment(kBanded,
                        {"schedules.noise_multiplier={kind: exponential, initial: 3, rate: 0.1}",
                         "privacy.target_epsilon=null"});
  const core::Plan& plan = experiment.plan();
  const std::vector<double>& charged = plan.correlated->multipliers;
  for (std::size_t first = 0; first < charged.size(); first += 4) {
    const std::size_t last = std::min<std::size_t>(first + 3, charged.size() - 1);
    CHECK(plan.charges[first].cost == Event::poisson_sampled(0.2, Event::gaussian(charged[last])));
  }
}

TEST_CASE("matrix, banded: batches are held against their cycles, and drawn with secret keys",
          "[matrix][banded][privacy]") {
  Experiment experiment(kBanded), other(kBanded, {"seed=2"});
  experiment.run();
  other.run();
  CHECK(experiment.parameters() != other.parameters());
  CHECK(checks_of(experiment).at("batches") == 26);
}

TEST_CASE("matrix, banded: what may meet an example twice within the bands is refused",
          "[matrix][banded][privacy]") {
  CHECK(banded_refusal({}).empty());
  CHECK(banded_refusal({"sampler={kind: cyclic_poisson, batch_size: 6, cycle: 3}"}).empty());
  CHECK_THAT(banded_refusal({"sampler={kind: cyclic_poisson, batch_size: 6, cycle: 2}"}),
             ContainsSubstring("in steps that are 2 apart") && ContainsSubstring("has 3 bands"));
  CHECK_THAT(banded_refusal({"sampler={kind: poisson, batch_size: 6}"}),
             ContainsSubstring("in steps that are 1 apart"));
  CHECK_THAT(banded_refusal({"sampler={kind: fixed_size, batch_size: 6}",
                             "privacy.adjacency=replace_one", "privacy.accountant=rdp"}),
             ContainsSubstring("no amplification is proved"));
  CHECK_THAT(banded_refusal({"sampler={kind: allocation, steps_per_epoch: 6}"}),
             ContainsSubstring("no amplification is proved"));
  CHECK_THAT(banded_refusal({"privacy.adjacency=add_or_remove_one"}),
             ContainsSubstring("add_or_remove_one"));
  CHECK_THAT(banded_refusal({"privacy.accountant=zcdp"}), ContainsSubstring("pld"));
  CHECK_THAT(banded_refusal({"aggregator.form=inverse"}),
             ContainsSubstring("no amplification is proved"));
  CHECK_THAT(banded_refusal({"aggregator={kind: matrix, form: banded, strategy: bisr}"}),
             ContainsSubstring("form inverse"));
}

TEST_CASE("matrix: what no theorem covers is refused, with what to use", "[matrix][privacy]") {
  CHECK(refusal({}).empty());
  CHECK_THAT(refusal({"sampler={kind: poisson, batch_size: 10}", "privacy.accountant=rdp",
                      "privacy.adjacency=zero_out"}),
             ContainsSubstring("no amplification is proved"));
  CHECK_THAT(refusal({"sampler={kind: allocation, steps_per_epoch: 6}", "privacy.accountant=pld",
                      "privacy.adjacency=zero_out"}),
             ContainsSubstring("no amplification is proved"));
  CHECK_THAT(refusal({"privacy.adjacency=add_or_remove_one"}), ContainsSubstring("add_or_remove"));
  CHECK_THAT(refusal({"aggregator.arithmetic=float"}),
             ContainsSubstring("only exact arithmetic supports"));
  CHECK_THAT(refusal({"clipping=adaclip"}), ContainsSubstring("scales the coordinates"));
  CHECK_THAT(refusal({"optimizer=ftrl"}), ContainsSubstring("expects the sum of all gradients"));
  CHECK_THAT(refusal({"privacy.accountant=zcdp",
                      "schedules.noise_multiplier={kind: descent_check, initial: 20, every: 4, "
                      "raise: 0.5, loss_bound: 2, check_noise_multiplier: 30}"}),
             ContainsSubstring("carries noise on"));
}
