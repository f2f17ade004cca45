#include <cmath>

#include "privgrad/record/facts.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

/// Three trees over epochs of 9 steps in one order; each test changes a line or two.
constexpr const char* kTreeReduced = R"(privgrad: 1
name: reduced
seed: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 5}
model: {kind: linear}
sampler: {kind: shuffle, batch_size: 7, fresh: false}
aggregator: {kind: tree_reduced, momentum: 0.9, smoothness: 10}
optimizer: {kind: normalized_sgd}
schedules: {clip_norm: 1.0, learning_rate: 0.02}
privacy: {target_epsilon: 4, target_delta: 1e-5, adjacency: replace_one, accountant: gdp}
steps: 80
)";

std::string refusal(const std::vector<std::string>& overrides) {
  try {
    Experiment(kTreeReduced, overrides).plan();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("tree_reduced: without noise and clipping it is momentum, like tree", "[reduced]") {
  const std::vector<std::string> exact{"privacy.noise=off", "schedules.clip_norm=1e4",
                                       "aggregator.smoothness=1e6"};
  Experiment reduced(kTreeReduced, exact);
  Experiment tree(kTreeReduced, {exact[0], exact[1], "aggregator={kind: tree, momentum: 0.9}"});
  reduced.run();
  tree.run();
  const auto a = reduced.parameters(), b = tree.parameters();
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK_THAT(a[i], WithinAbs(b[i], 1e-4));
}

TEST_CASE("tree_reduced: calibrated to the target, charged ahead, and said to be a bound",
          "[reduced][privacy]") {
  Experiment experiment(kTreeReduced);
  const core::Plan& plan = experiment.plan();
  CHECK(plan.epsilon().value <= 4.0);
  CHECK(plan.epsilon().value >= 4.0 * (1 - 1e-9));
  // The contributions to the three trees of a step cannot all be the worst case at once.
  CHECK(plan.epsilon().bound == BoundKind::upper);
  CHECK_FALSE(plan.epsilon().lower);
  const auto result = experiment.run();
  CHECK(result.status == core::RunStatus::completed);
  CHECK(result.epsilon.value == plan.epsilon().value);
  CHECK(result.epsilon.bound == BoundKind::upper);
  CHECK_FALSE(result.epsilon.lower);
  CHECK_THAT(result.statement.dump(), ContainsSubstring("differences of an example's clipped"));
  double sum = 0.0;
  const auto ledger = experiment.ledger();
  for (std::size_t step = 0; step < 80; ++step) {
    const auto& event = ledger.releases[step].event;
    if (event.at("event") == "gaussian")
      sum += std::pow(event.at("noise_multiplier").get<double>(), -2.0);
    CHECK(sum >= plan.correlated->order->cost.worst_after[step]);
  }
}

TEST_CASE("a plain tree's answer is exact: equal contributions meet it", "[reduced][privacy]") {
  Experiment tree(kTreeReduced, {"aggregator={kind: tree, momentum: 0.9}"});
  CHECK(tree.plan().epsilon().bound == BoundKind::exact);
  CHECK(tree.run().epsilon.bound == BoundKind::exact);
}

TEST_CASE("tree_reduced asks for the same batches in every epoch", "[reduced]") {
  CHECK_THAT(refusal({"sampler={kind: shuffle, batch_size: 7}"}),
             ContainsSubstring("error: sampler: shuffle draws other batches in each epoch") &&
                 ContainsSubstring("fresh: false"));
  CHECK(refusal({"sampler={kind: sequential, batch_size: 7}"}) == "none");
  CHECK(refusal({"sampler={kind: full_batch}"}) == "none");
  CHECK_THAT(refusal({"aggregator={kind: tree_reduced, momentum: 0.9, smoothness: 10, gamma: 2}"}),
             ContainsSubstring("gamma"));
  CHECK_THAT(refusal({"schedules.learning_rate=0.2"}),
             ContainsSubstring("gamma is auto") && ContainsSubstring("(0, 0.5]"));
}

// Theorem 6 of Tran and Cutkosky (2022) for batches of B: alpha = epsilon N / (T log2 T sqrt(d
// ln(1/delta))), eta = 1/sqrt(n T), and T log2 T = epsilon N n / sqrt(d ln(1/delta)).
TEST_CASE("auto: DP-NSGD with the values of Theorem 6", "[reduced][auto]") {
  const std::vector<std::string> automatic{"aggregator={kind: tree, momentum: auto}",
                                           "schedules.learning_rate=auto"};
  Experiment given(kTreeReduced, automatic);
  const core::Plan& plan = given.plan();
  const double d = double(plan.parameters), log_delta = std::log(1e5), n = 60.0 / 7.0;
  const double root = std::sqrt(d * log_delta);
  CHECK_THAT(plan.learning_rate.front(), WithinRel(1.0 / std::sqrt(n * 80.0), 1e-12));
  REQUIRE(plan.auto_values.size() == 2);
  const double alpha = 4.0 * 60.0 / (80.0 * std::log2(80.0) * root);
  CHECK(plan.auto_values[1].where == "aggregator.momentum");
  CHECK_THAT(plan.auto_values[1].value, WithinRel(1.0 - alpha, 1e-12));
  CHECK_THAT(plan.correlated->parts.front().recipes.keep(0), WithinRel(1.0 - alpha, 1e-12));
  const auto json = core::to_json(core::plan_facts(plan)).at("auto");
  CHECK(json.at("schedules.learning_rate").at("value") == plan.learning_rate.front());
  CHECK_THAT(json.at("aggregator.momentum").at("reason").get<std::string>(),
             ContainsSubstring("Theorem 6"));

  Experiment all(kTreeReduced, {automatic[0], automatic[1], "steps=auto"});
  const double steps = double(all.plan().steps());
  const double product = 4.0 * 60.0 * n / root;
  CHECK(steps * std::log2(steps) <= product);
  CHECK((steps + 1.0) * std::log2(steps + 1.0) > product);
  // There alpha is 1/n, up to the rounding to whole steps.
  CHECK_THAT(1.0 - all.plan().auto_values.back().value, WithinRel(1.0 / n, 0.1));
  CHECK(all.run().steps == all.plan().steps());
}

// Theorem 9 for batches of B: alpha = epsilon B (n/T)^(3/4) / sqrt(d), gamma = eta n,
// T = (epsilon B)^(4/3) n^(7/3) / d^(2/3).
TEST_CASE("auto: the reduced variant with the values of Theorem 9", "[reduced][auto]") {
  Experiment experiment(kTreeReduced,
                        {"aggregator={kind: tree_reduced, momentum: auto, smoothness: 1}",
                         "schedules.learning_rate=auto", "steps=auto", "privacy.target_epsilon=2"});
  const core::Plan& plan = experiment.plan();
  const double d = double(plan.parameters), n = 60.0 / 7.0;
  const double steps =
      std::floor(std::pow(2.0 * 7.0, 4.0 / 3.0) * std::pow(n, 7.0 / 3.0) / std::pow(d, 2.0 / 3.0));
  CHECK(double(plan.steps()) == steps);
  REQUIRE(plan.auto_values.size() == 4);
  const auto value = [&](const std::string& where) {
    for (const auto& chosen : plan.auto_values) {
      if (chosen.where == where) return chosen.value;
    }
    return std::nan("");
  };
  const double eta = 1.0 / std::sqrt(n * steps);
  CHECK_THAT(value("schedules.learning_rate"), WithinRel(eta, 1e-12));
  CHECK_THAT(value("aggregator.gamma"), WithinRel(eta * n, 1e-12));
  const double alpha = 2.0 * 7.0 * std::pow(n / steps, 0.75) / std::sqrt(d);
  CHECK_THAT(value("aggregator.momentum"), WithinRel(1.0 - alpha, 1e-12));
  CHECK_THAT(alpha, WithinRel(1.0 / n, 0.01));
}

TEST_CASE("auto: what no theorem says is refused, with what to give", "[reduced][auto]") {
  CHECK_THAT(refusal({"schedules.learning_rate=auto", "optimizer=adam"}),
             ContainsSubstring("error: schedules.learning_rate: is auto") &&
                 ContainsSubstring("optimizer adam; give a number"));
  CHECK_THAT(
      refusal({"steps=auto", "aggregator=gaussian"}),
      ContainsSubstring("error: steps: is auto") && ContainsSubstring("aggregator gaussian"));
  CHECK_THAT(refusal({"aggregator={kind: tree, momentum: auto}", "privacy.target_epsilon=null",
                      "schedules.noise_multiplier=2"}),
             ContainsSubstring("momentum is auto") && ContainsSubstring("target_epsilon"));
  CHECK_THAT(refusal({"aggregator={kind: tree, momentum: auto}", "steps=3"}),
             ContainsSubstring("an alpha of at most 1"));
  CHECK_THAT(refusal({"steps=often"}), ContainsSubstring("expected an integer or auto"));
}

TEST_CASE("the gradient norm is measured where a manifest asks for it, in research mode",
          "[reduced]") {
  Experiment asked(kTreeReduced, {"gradient_norm=true", "steps=5"});
  const auto result = asked.run();
  REQUIRE(result.metrics.gradient_norm);
  CHECK(*result.metrics.gradient_norm > 0.0);
  CHECK(result.summary.at("metrics").at("gradient_norm") == *result.metrics.gradient_norm);
  Experiment silent(kTreeReduced, {"steps=5"});
  CHECK_FALSE(silent.run().summary.at("metrics").contains("gradient_norm"));
  std::string release = kTreeReduced;
  release.replace(release.find("seed: 1"), 7, "mode: release");
  CHECK_THROWS_AS(Experiment(release, {"gradient_norm=true"}).plan(), PrivacyError);
}
