#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "privgrad/record/facts.hpp"
#include "privgrad/record/short_numbers.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/statement/statement.hpp"
#include "privgrad/trust/event_json.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

/// Momentum by a tree over epochs with new permutations; each test changes a line or two.
constexpr const char* kTreeNoise = R"(privgrad: 1
name: tree
seed: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 5}
model: {kind: linear}
sampler: {kind: shuffle, batch_size: 7}
aggregator: {kind: tree, momentum: 0.9}
optimizer: {kind: sgd}
schedules: {noise_multiplier: {kind: uniform}, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 4, target_delta: 1e-5, adjacency: replace_one, accountant: gdp}
steps: 150
)";

/// Returns the sum of 1/sigma^2 over all charges.
double charged(const core::LedgerContents& ledger) {
  double sum = 0.0;
  for (const auto& release : ledger.releases) {
    if (release.event.at("event") != "gaussian") continue;
    const double sigma = release.event.at("noise_multiplier");
    sum += 1.0 / (sigma * sigma);
  }
  return sum;
}

}  // namespace

TEST_CASE("the node noise of a tree is calibrated to the target, and the run stays within it",
          "[tree][privacy]") {
  for (const std::vector<std::string>& overrides : {
           std::vector<std::string>{"aggregator={kind: tree}",
                                    "sampler={kind: sequential, batch_size: 7}"},
           {"aggregator={kind: tree, momentum: 0.9, restart_every: 16, completion: true}"},
           {"aggregator={kind: tree, variance_reduction: true}", "sampler={kind: full_batch}",
            "privacy.adjacency=add_or_remove_one", "data.size=60"},
           {"sampler={kind: fixed_size, batch_size: 7, amplification: false}"},
       }) {
    Experiment experiment(kTreeNoise, overrides);
    CHECK(experiment.plan().epsilon().value <= 4.0);
    CHECK(experiment.plan().epsilon().value >= 4.0 * (1 - 1e-9));
    const auto result = experiment.run();
    CHECK(result.status == core::RunStatus::completed);
    CHECK(result.epsilon.value == experiment.plan().epsilon().value);
  }
}

TEST_CASE("the ledger of a correlated run never shows less than its steps have cost",
          "[tree][privacy]") {
  Experiment experiment(kTreeNoise);
  experiment.run();
  const auto& cost = experiment.plan().correlated->order->cost;
  const auto ledger = experiment.ledger();
  REQUIRE(ledger.releases.size() == 150);
  double sum = 0.0;
  for (std::size_t step = 0; step < 150; ++step) {
    const auto& event = ledger.releases[step].event;
    if (event.at("event") == "gaussian") {
      sum += std::pow(event.at("noise_multiplier").get<double>(), -2.0);
    }
    CHECK(sum >= cost.worst_after[step]);
  }
  // At the end the total is exact: the largest cost of an example, times 4 for replace_one, is the
  // mu^2 of GDP.
  CHECK_THAT(sum, WithinRel(cost.worst_after.back(), 1e-12));
}

TEST_CASE("a correlated run follows the order that it was accounted for", "[tree][privacy]") {
  // Without a seed, the plan draws the order from the operating system.
  std::string unseeded = kTreeNoise;
  unseeded.erase(unseeded.find("seed: 1\n"), 8);
  Experiment one(unseeded), two(unseeded);
  const auto& first = *one.plan().correlated;
  const auto& second = *two.plan().correlated;
  const auto members = [](const core::CorrelatedPlan& plan) {
    const auto span = plan.order->participation->at(0);
    return std::vector<std::uint32_t>(span.begin(), span.end());
  };
  CHECK(members(first) != members(second));  // equal by chance once in 10^8
  // run() compares each batch with the plan's order, and throws if it differs.
  CHECK(one.run().status == core::RunStatus::completed);
  CHECK_THAT(charged(one.ledger()), WithinRel(first.order->cost.worst_after.back(), 1e-12));
}

TEST_CASE("a budget that pays for a part of a correlated run ends it there", "[tree][privacy]") {
  Experiment experiment(kTreeNoise, {"schedules.noise_multiplier=4"});
  const std::uint64_t affordable = experiment.plan().affordable_steps;
  CHECK(affordable > 0);
  CHECK(affordable < 150);
  const auto result = experiment.run();
  CHECK(result.status == core::RunStatus::budget_exhausted);
  CHECK(result.steps == affordable);
  CHECK(result.epsilon.value <= 4.0);
}

TEST_CASE("momentum 0 is independent noise, and costs what that costs", "[tree][privacy]") {
  Experiment tree(kTreeNoise, {"aggregator.momentum=0"});
  Experiment gaussian(kTreeNoise, {"aggregator=gaussian"});
  // Both charge an example once per epoch, also in the last one, of which six of nine steps run.
  CHECK_THAT(tree.plan().noise_multiplier.front(),
             WithinRel(gaussian.plan().noise_multiplier.front(), 1e-9));
  tree.run();
  gaussian.run();
  const auto a = tree.parameters(), b = gaussian.parameters();
  for (std::size_t i = 0; i < a.size(); ++i) CHECK_THAT(a[i], WithinAbs(b[i], 1e-4));
}

TEST_CASE("what cannot be accounted by participation is refused", "[tree][privacy]") {
  const auto refused = [](const std::vector<std::string>& overrides) {
    return Experiment(kTreeNoise, overrides).plan().epsilon().value;
  };
  CHECK_THROWS_AS(refused({"sampler={kind: poisson, sample_rate: 0.1}"}), PrivacyError);
  CHECK_THROWS_WITH(refused({"sampler={kind: poisson, sample_rate: 0.1}"}),
                    ContainsSubstring("error: sampler: poisson") &&
                        ContainsSubstring("no amplification is proved") &&
                        ContainsSubstring("use sampler shuffle"));
  CHECK_THROWS_AS(refused({"sampler={kind: fixed_size, batch_size: 5}"}), PrivacyError);
  CHECK_THROWS_AS(refused({"privacy.adjacency=add_or_remove_one", "data.size=60"}), PrivacyError);
  CHECK_THROWS_WITH(refused({"schedules.clip_norm={kind: exponential, rate: 0.99, initial: 1}"}),
                    ContainsSubstring("aggregator tree releases sums over many steps"));
  CHECK_THROWS_WITH(refused({"clipping={kind: adaptive}"}),
                    ContainsSubstring("changes the clip norm"));
}

TEST_CASE("the plan says what each example's part costs", "[tree]") {
  Experiment experiment(kTreeNoise);
  const auto json = core::to_json(core::plan_facts(experiment.plan())).at("participation");
  CHECK(json.at("steps_of_an_example") == nlohmann::json{16, 17});  // 150 steps, epochs of 9
  const auto& rho = json.at("rho");
  CHECK(rho.at("min") <= rho.at("first_quartile"));
  CHECK(rho.at("median") <= rho.at("max"));
  CHECK(rho.at("min").get<double>() < 0.9 * rho.at("max").get<double>());
  // The run's rho is mu^2 / 2, where gdp finds mu for (4, 1e-5).
  Experiment zcdp(kTreeNoise, {"privacy.accountant=zcdp",
                               "schedules.noise_multiplier=" +
                                   format_number(experiment.plan().noise_multiplier.front()),
                               "privacy.target_epsilon=null"});
  CHECK_THAT(zcdp.plan().epsilon().note,
             ContainsSubstring("rho = " + format_number(rho.at("max").get<double>()).substr(0, 8)));
}

TEST_CASE("the statement of a correlated run says what was charged, and claims no amplification",
          "[tree][privacy]") {
  Experiment experiment(kTreeNoise);
  const auto statement = experiment.run().statement;
  const auto& mechanism = statement.at("mechanism");
  // All charges as the one Gaussian to which they compose.
  const double sigma =
      1.0 / std::sqrt(experiment.plan().correlated->order->cost.worst_after.back());
  CHECK(mechanism.at("charged_as") ==
        "gaussian of noise multiplier " + core::short_number(sigma, 6));
  const auto& correlated = mechanism.at("correlated");
  CHECK(correlated.at("planned_steps_of_an_example") ==
        nlohmann::json{{"smallest", 16}, {"largest", 17}});
  const double node = experiment.plan().noise_multiplier.front();
  CHECK(correlated.at("own_noise_multiplier") ==
        nlohmann::json{{"smallest", node}, {"largest", node}});
  CHECK(statement.at("arithmetic") == "exact");
  std::string prose;
  for (const auto& paragraph : statement.at("prose")) prose += paragraph.get<std::string>() + "\n";
  CHECK_THAT(prose, ContainsSubstring("correlated Gaussian noise"));
  CHECK_THAT(prose, ContainsSubstring("takes part in 16 to 17 of the planned steps"));
  CHECK_THAT(prose, ContainsSubstring("no amplification by sampling is claimed"));
  CHECK_THAT(prose, ContainsSubstring("checked against the order that was accounted"));
  CHECK_THAT(prose, ContainsSubstring("draw their order without looking at data"));
  // The sampler's own description is about independent releases.
  CHECK_THAT(prose, !ContainsSubstring("costliest release"));

  SECTION("of independent releases it speaks as before") {
    Experiment other(kTreeNoise, {"aggregator=gaussian"});
    const auto independent =
        core::privacy_statement(other.plan(), core::outcome_of_all(other.plan()));
    CHECK_FALSE(independent.mechanism.correlated);
    CHECK_THAT(independent.sampling.means, ContainsSubstring("costliest release"));
  }
}

TEST_CASE("without noise a tree releases exact sums", "[tree]") {
  Experiment tree(kTreeNoise, {"privacy.noise=off", "aggregator.momentum=0"});
  Experiment gaussian(kTreeNoise, {"privacy.noise=off", "aggregator=gaussian"});
  tree.run();
  gaussian.run();
  CHECK(tree.parameters() == gaussian.parameters());
}

TEST_CASE("DP-NSGD: normalized steps along tree momentum learn", "[tree]") {
  // Two clusters with distance ten.
  Experiment experiment(kTreeNoise,
                        {"optimizer=normalized_sgd", "schedules.learning_rate=0.1", "data.rows=600",
                         "sampler.batch_size=20", "data.test_rows=200"});
  CHECK(experiment.run().metrics.test_accuracy.value() > 0.9);
}

TEST_CASE("DP-NSGD: without noise, momentum of the optimizer is that of the tree", "[tree]") {
  const std::vector<std::string> common{"privacy.noise=off", "optimizer=normalized_sgd",
                                        "schedules.learning_rate=0.1"};
  const auto parameters_with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> set = common;
    set.insert(set.end(), more.begin(), more.end());
    Experiment experiment(kTreeNoise, set);
    experiment.run();
    return experiment.parameters();
  };
  const auto tree = parameters_with({});
  const auto optimizer =
      parameters_with({"aggregator=gaussian", "optimizer={kind: normalized_sgd, momentum: 0.9}"});
  const auto none = parameters_with({"aggregator=gaussian"});
  double furthest = 0.0, without = 0.0;
  for (std::size_t i = 0; i < tree.size(); ++i) {
    furthest = std::max(furthest, static_cast<double>(std::abs(tree[i] - optimizer[i])));
    without = std::max(without, static_cast<double>(std::abs(tree[i] - none[i])));
  }
  CHECK(furthest < 1e-4);  // the rounding errors of 150 steps
  CHECK(without > 1e-2);
}

TEST_CASE("DP-FTRL: without noise it is gradient descent, and it insists on sums", "[tree]") {
  // w_0 - rate * (g_1 + ... + g_t) is the result of sgd, step by step, except for float32
  // roundings.
  const std::vector<std::string> ftrl{"optimizer=ftrl", "aggregator={kind: tree}"};
  std::vector<std::string> exact = ftrl;
  exact.push_back("privacy.noise=off");
  Experiment sums(kTreeNoise, exact);
  Experiment sgd(kTreeNoise, {"aggregator=gaussian", "privacy.noise=off"});
  sums.run();
  sgd.run();
  const auto a = sums.parameters(), b = sgd.parameters();
  for (std::size_t i = 0; i < a.size(); ++i) CHECK_THAT(a[i], WithinAbs(b[i], 1e-4));
  CHECK(Experiment(kTreeNoise, ftrl).run().epsilon.value <= 4.0);
  for (const char* other : {"aggregator=gaussian", "aggregator={kind: tree, momentum: 0.9}"}) {
    CHECK_THROWS_WITH(Experiment(kTreeNoise, {"optimizer=ftrl", other}).plan(),
                      ContainsSubstring("ftrl expects the sum of all gradients"));
  }
}

TEST_CASE("a random iterate is the model before one of the steps", "[run]") {
  const auto parameters_of = [](const std::string& seed, const std::vector<std::string>& more) {
    std::vector<std::string> overrides{"seed=" + seed, "steps=4", "schedules.noise_multiplier=2",
                                       "privacy.target_epsilon=null"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    Experiment experiment(kTreeNoise, overrides);
    experiment.run();
    return experiment.parameters();
  };
  std::vector<int> chosen(4, 0);
  for (int seed = 0; seed < 40; ++seed) {
    const std::string text = std::to_string(seed);
    const auto drawn = parameters_of(text, {"output=random_iterate"});
    int matches = 0;
    for (int steps = 0; steps < 4; ++steps) {
      // The models of shorter runs with the same seed; the initial model comes from a rate of 0.
      const auto model = steps == 0 ? parameters_of(text, {"schedules.learning_rate=0"})
                                    : parameters_of(text, {"steps=" + std::to_string(steps)});
      if (model != drawn) continue;
      ++matches;
      ++chosen[static_cast<std::size_t>(steps)];
    }
    CHECK(matches == 1);
  }
  // Each choice has probability 1/4; a count below 2 of 40 occurs once in 10^4 seeds, and the seeds
  // are fixed.
  for (const int count : chosen) CHECK(count >= 2);
}

TEST_CASE("a random iterate is one of those that the budget pays for", "[run]") {
  // A step chosen among all planned ones would often never be reached, and the run would end with
  // the last model, so the choice would not be uniform. With ten seeds and a fifth of the steps,
  // chance gives this result once in 10^7.
  for (int seed = 0; seed < 10; ++seed) {
    Experiment experiment(kTreeNoise, {"output=random_iterate", "schedules.noise_multiplier=4",
                                       "seed=" + std::to_string(seed)});
    CHECK(experiment.plan().affordable_steps < 50);
    const auto result = experiment.run();
    CHECK(result.status == core::RunStatus::budget_exhausted);
    CHECK(result.summary.at("output") == "random_iterate");
  }
}
