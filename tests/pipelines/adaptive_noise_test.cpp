// Noise that depends on releases: the charges, the guarantees, and the refusals.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <sstream>

#include "fake_accountant.hpp"
#include "fake_program.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/theorems/utility_bound.hpp"
#include "privgrad/train/adaptive_noise.hpp"
#include "privgrad/trust/normals.hpp"
#include "privgrad/trust/random_key.hpp"
#include "test_components.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

using Json = nlohmann::json;

/// Private gradient descent on 400 examples; each test changes a line or two. The conversion has a
/// closed form, so that the tests can compute epsilon.
constexpr const char* kAdaptiveNoise = R"(privgrad: 1
name: base
seed: 1
data: {kind: synthetic, rows: 400, size: 400, test_rows: 100, dimensions: 5, test_is_public: true}
model: {kind: linear}
sampler: full_batch
optimizer: {kind: sgd}
schedules:
  noise_multiplier: {kind: descent_check, initial: 20, every: 5, raise: 0.5, loss_bound: 2, check_noise_multiplier: 30}
  clip_norm: 1.0
  learning_rate: 0.5
privacy: {target_epsilon: 2, target_delta: 1e-5, adjacency: zero_out, accountant: {kind: zcdp, conversion: classic}}
steps: 40
evaluate_every: 5
)";

const char* const kValidation =
    "schedules.noise_multiplier={kind: validation, initial: 20, every: 5, threshold: 0.01, factor: "
    "0.8}";

/// Returns the epsilon of Bun and Steinke 2016, Proposition 1.3.
double epsilon_of(double rho) { return rho + 2.0 * std::sqrt(rho * std::log(1e5)); }

/// A finished run and its results.
struct Ended {
  explicit Ended(const Overrides& overrides = {}, int threads = 1)
      : experiment(kAdaptiveNoise, overrides), result(experiment.run(threads)) {
    const Json slot = schedules().at("slots").at("noise_multiplier");
    for (std::size_t i = 0, at = 0; at < charged_steps(); ++at) {
      if (i + 1 < slot.at("step").size() && slot.at("step")[i + 1] == at) ++i;
      noise.push_back(slot.at("value")[i].get<double>());
    }
    const Json measurements = result.summary.at("adaptive_noise").at("measurements");
    measured_at = measurements.at("step").get<std::vector<std::uint64_t>>();
    measured = measurements.at("value").get<std::vector<double>>();
  }

  Json schedules() const { return Json::parse(read_file(experiment.run_dir() / "schedules.json")); }
  std::uint64_t charged_steps() const { return result.statement.at("charged_steps"); }
  double spent() const { return result.summary.at("epsilon_spent"); }
  const core::Plan& plan() { return experiment.plan(); }

  /// Lines of the ledger that are not steps.
  std::size_t checks_in_ledger() const {
    std::size_t count = 0;
    for (const auto& release : experiment.ledger().releases) count += release.what.empty() ? 0 : 1;
    return count;
  }

  /// Returns a column of metrics.jsonl.
  std::vector<std::pair<std::uint64_t, double>> metric(const char* name) const {
    std::vector<std::pair<std::uint64_t, double>> values;
    std::istringstream lines(read_file(experiment.run_dir() / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line);
      values.push_back({json.at("step"), json.at(name)});
    }
    return values;
  }

  Experiment experiment;
  core::RunResult result;
  std::vector<double> noise;  // for each charged step
  std::vector<std::uint64_t> measured_at;
  std::vector<double> measured;
};

std::string adaptive_refusal(const Overrides& overrides) {
  try {
    Experiment(kAdaptiveNoise, overrides).plan();
  } catch (const std::exception& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  FAIL("the plan was made");
  return {};
}

/// Returns the next noise that the schedule of a finished run would choose.
double next_noise(Ended& run) {
  const core::ComponentUse& use = run.plan().manifest->noise_multiplier;
  const auto schedule = use.make<Schedule>();
  schedule->start({.steps = run.plan().steps(), .slot = "noise_multiplier"});
  return schedule->next(run.noise.back(), run.measured);
}

}  // namespace

TEST_CASE("adaptive noise: the ledger adds up the noise that was used, and the checks",
          "[adaptive_noise][privacy]") {
  // Per release, (kappa / noise multiplier)^2 / 2; kappa by the definition of each relation.
  for (const auto& [adjacency, kappa] :
       {std::pair{"zero_out", 1.0}, {"add_or_remove_one", 1.0}, {"replace_one", 2.0}}) {
    INFO(adjacency);
    const Ended run({std::string("privacy.adjacency=") + adjacency, "privacy.target_epsilon=6"});
    REQUIRE(run.result.steps > 20);
    double rho = 0.0;
    for (const double sigma : run.noise) rho += kappa * kappa / (2.0 * sigma * sigma);
    const std::uint64_t checks = (run.noise.size() - 1) / 5;
    rho += static_cast<double>(checks) * kappa * kappa / (2.0 * 30.0 * 30.0);
    CHECK(run.checks_in_ledger() == checks);
    CHECK(run.measured.size() == checks);
    CHECK_THAT(run.spent(), WithinRel(epsilon_of(rho), 1e-12));
    CHECK_THAT(run.experiment.ledger().releases.back().epsilon, WithinRel(run.spent(), 1e-12));
    CHECK(run.noise.size() == run.charged_steps());
    CHECK(run.noise.back() < 20.0);
  }
}

TEST_CASE("adaptive noise: a step and a check are paid for one by one, before they are made",
          "[adaptive_noise][privacy]") {
  const Ended run;
  const auto ledger = run.experiment.ledger();
  double last = 0.0;
  std::uint64_t step = 0, next_check = 5;
  for (const auto& release : ledger.releases) {
    CHECK(release.epsilon > last);  // lines that are charged together show one total
    last = release.epsilon;
    if (release.what.empty()) {
      CHECK(release.step == step++);
      CHECK(release.event.at("noise_multiplier") == run.noise[release.step]);
    } else {
      CHECK(release.what == "loss_change");
      CHECK(release.step == next_check);
      CHECK(step == next_check);  // due after `step` steps
      CHECK(release.event.at("noise_multiplier") == 30.0);
      next_check += 5;
    }
  }
}

TEST_CASE("adaptive noise: no run spends more than its budget, whatever it releases",
          "[adaptive_noise][privacy]") {
  int exhausted = 0;
  for (int seed = 1; seed <= 40; ++seed) {
    INFO(seed);
    // With a learning rate of 0 the checks are random, and so is the length of the run.
    Ended run({"seed=" + std::to_string(seed), "schedules.learning_rate=0"});
    for (const auto& release : run.experiment.ledger().releases) CHECK(release.epsilon <= 2.0);
    CHECK(run.result.epsilon.value == 2.0);
    if (run.result.status == core::RunStatus::completed) continue;
    ++exhausted;
    CHECK(run.result.status == core::RunStatus::budget_exhausted);
    CHECK(run.result.steps < 40);
    // It ended at the right place: neither another step nor another check would have fitted.
    const double rho =
        std::pow(std::sqrt(std::log(1e5) + run.spent()) - std::sqrt(std::log(1e5)), 2.0);
    const bool check_was_due =
        run.result.steps % 5 == 0 && run.measured_at.back() != run.result.steps;
    const double sigma = check_was_due               ? 30.0
                         : run.result.steps % 5 == 0 ? next_noise(run)
                                                     : run.noise.back();
    CHECK(epsilon_of(rho + 1.0 / (2.0 * sigma * sigma)) > 2.0);
  }
  CHECK(exhausted > 10);
}

TEST_CASE("descent_check: the noise falls exactly after the checks that saw no descent",
          "[adaptive_noise]") {
  int falls = 0, stays = 0;
  for (const char* margin : {"0", "0.02"}) {
    const Ended run({std::string("schedules.noise_multiplier.margin=") + margin,
                     "privacy.target_epsilon=20", "steps=100"});
    REQUIRE(run.noise.size() == 100);
    CHECK(run.noise.front() == 20.0);
    std::size_t check = 0;
    for (std::size_t step = 1; step < run.noise.size(); ++step) {
      const bool is_after_check = step % 5 == 0;
      if (is_after_check) CHECK(run.measured_at.at(check) == step);
      const bool descended = !is_after_check || run.measured.at(check++) < -std::stod(margin);
      (descended ? stays : falls) += is_after_check ? 1 : 0;
      const double expected =
          descended ? run.noise[step - 1] : run.noise[step - 1] / std::sqrt(1.5);
      CHECK_THAT(run.noise[step], WithinRel(expected, 1e-14));
    }
    CHECK(check == run.measured.size());
  }
  CHECK(falls > 5);
  CHECK(stays > 5);
}

TEST_CASE("descent_check: with next to no noise it sees how the mean loss changed",
          "[adaptive_noise]") {
  // The exact losses are in metrics.jsonl; none is as large as the bound.
  const Ended run({"schedules.noise_multiplier.check_noise_multiplier=1e-5",
                   "schedules.noise_multiplier.loss_bound=50", "privacy.target_epsilon=1e14"});
  const auto losses = run.metric("train_loss");
  REQUIRE(run.measured.size() == 7);
  for (std::size_t i = 1; i < run.measured.size(); ++i) {
    REQUIRE(losses[i].first == run.measured_at[i]);
    CHECK_THAT(run.measured[i], WithinAbs(losses[i].second - losses[i - 1].second, 2e-5));
  }
}

TEST_CASE("descent_check: the noise of a check is the noise that was charged",
          "[adaptive_noise][privacy]") {
  // The model never changes, so neither does the loss: the measurements are pure noise, with
  // standard deviation 30 * 2 / 400.
  const Ended run({"schedules.learning_rate=0", "schedules.noise_multiplier.every=1",
                   "schedules.noise_multiplier.raise=1e-9", "privacy.target_epsilon=100",
                   "steps=1001"});
  REQUIRE(run.measured.size() == 1000);
  double square = 0.0, sum = 0.0, neighbours = 0.0;
  for (std::size_t i = 0; i < 1000; ++i) {
    const double z = run.measured[i] / (30.0 * 2.0 / 400.0);
    square += z * z;
    sum += z;
    if (i > 0) neighbours += z * run.measured[i - 1] / (30.0 * 2.0 / 400.0);
  }
  // Five standard errors: sqrt(2 n) for a sum of squares, sqrt(n) for the others.
  CHECK(std::abs(square - 1000.0) < 5.0 * std::sqrt(2000.0));
  CHECK(std::abs(sum) < 5.0 * std::sqrt(1000.0));
  CHECK(std::abs(neighbours) < 5.0 * std::sqrt(1000.0));
  // No step has the noise of a measurement; otherwise the difference of the two would have none.
  const core::RandomKey of_steps = core::RandomKey::from_seed(1).derive("noise");
  for (std::size_t i = 0; i < 1000; ++i) {
    for (const std::uint64_t node : {run.measured_at[i] - 1, run.measured_at[i]}) {
      std::array<float, 1> normal{};
      core::NormalStream(of_steps, node).fill(0, normal);
      CHECK(std::abs(run.measured[i] / 0.15 - static_cast<double>(normal[0])) > 1e-5);
    }
  }
}

namespace {

/// These stand for losses that are not finite, because features cannot be infinite or NaN.
constexpr float kInf = 3e38f, kNan = 2e38f;

/// A program whose loss for each example is chosen by its row: before and after.
class ChosenLosses final : public Program {
 public:
  std::size_t parameter_count() const override { return 1; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch&, std::span<float> rows) const override {
    std::fill(rows.begin(), rows.end(), 0.0f);
  }
  Evaluation evaluate(const Batch& batch) const override {
    const float feature = batch.features[is_after ? 1 : 0];
    double loss = static_cast<double>(feature);
    if (feature == kNan) loss = std::numeric_limits<double>::quiet_NaN();
    if (std::abs(feature) == kInf) loss *= std::numeric_limits<double>::infinity();
    return {.loss = loss, .correct = 0};
  }
  bool is_after = false;
};

using LossPair = std::array<float, 2>;

/// Returns the release of a check with almost no noise, times the number of examples in the plan.
double released_change(const std::vector<LossPair>& losses) {
  Experiment experiment(kAdaptiveNoise,
                        {"schedules.noise_multiplier.check_noise_multiplier=1e-7",
                         "privacy.target_epsilon=1e16", "privacy.adjacency=replace_one"});
  std::vector<float> features;
  for (const LossPair& pair : losses) features.insert(features.end(), pair.begin(), pair.end());
  const Dataset data({{2}, 0}, features, std::vector<float>(losses.size(), 0.0f));
  SerialExecutor executor;
  core::Components made = core::start_components(experiment.plan());
  core::AdaptiveNoise noise(experiment.plan(), *made.aggregator, data,
                            core::RandomKey::from_seed(1), executor);
  CountingAccountant accountant;
  accountant.start(Adjacency::replace_one);
  TempDir dir;
  core::Ledger ledger(dir.path() / "ledger.jsonl", {.target_epsilon = {}, .target_delta = 1e-5},
                      accountant, "test:counting", Json::object());
  core::Workbench bench;
  auto program = std::make_unique<ChosenLosses>();
  bool& is_after = program->is_after;
  bench.program = std::move(program);
  CHECK(noise.choose(0, bench, {}, ledger));
  CHECK(ledger.releases() == 0);
  is_after = true;
  CHECK(noise.choose(5, bench, {}, ledger));
  CHECK(ledger.releases() == 1);
  return 400.0 * noise.record().measured.front();
}

}  // namespace

TEST_CASE("descent_check: losses count as 0 to the bound, and as the bound where not finite",
          "[adaptive_noise][privacy]") {
  // The bound is 2.
  CHECK_THAT(released_change({{0.5f, 1.25f}}), WithinAbs(0.75, 1e-4));
  CHECK_THAT(released_change({{0.5f, kNan}}), WithinAbs(1.5, 1e-4));
  CHECK_THAT(released_change({{kInf, 0.5f}}), WithinAbs(-1.5, 1e-4));
  CHECK_THAT(released_change({{kNan, kInf}}), WithinAbs(0.0, 1e-4));
  CHECK_THAT(released_change({{0.0f, -kInf}}), WithinAbs(2.0, 1e-4));
  CHECK_THAT(released_change({{9.0f, 1.0f}}), WithinAbs(-1.0, 1e-4));
  CHECK_THAT(released_change({{1.0f, 1e30f}}), WithinAbs(1.0, 1e-4));
  CHECK_THAT(released_change({{-3.0f, 0.25f}}), WithinAbs(0.25, 1e-4));
  CHECK_THAT(released_change({{0.5f, 1.25f}, {0.5f, kNan}, {9.0f, 1.0f}}), WithinAbs(1.25, 1e-4));
}

TEST_CASE("descent_check: an example moves a check by the bound at most, exchanged by twice it",
          "[adaptive_noise][privacy]") {
  // Examples with the most extreme changes, together with an example that does not change.
  const LossPair stays{0.5f, 0.75f}, zero{1.0f, 1.0f};
  const std::vector<LossPair> worst{{0.0f, 1e30f},  {0.0f, kNan}, {kInf, 0.0f},
                                    {1e30f, -5.0f}, {kNan, kNan}, {0.0f, 2.0f}};
  const double without = released_change({stays});
  double most_added = 0.0, most_replaced = 0.0;
  for (const LossPair& one : worst) {
    const double added = std::abs(released_change({stays, one}) - without);
    most_added = std::max(most_added, added);
    // Under zero_out, the example's contribution becomes zero.
    CHECK_THAT(std::abs(released_change({stays, one}) - released_change({stays, zero})),
               WithinAbs(added, 1e-4));
    for (const LossPair& other : worst) {
      most_replaced = std::max(
          most_replaced, std::abs(released_change({stays, one}) - released_change({stays, other})));
    }
  }
  // The bound is attained, so the charged bound is the right one.
  CHECK_THAT(most_added, WithinAbs(2.0 * sensitivity_of_unit_bound(Adjacency::zero_out), 1e-4));
  CHECK_THAT(most_replaced,
             WithinAbs(2.0 * sensitivity_of_unit_bound(Adjacency::replace_one), 1e-4));
}

TEST_CASE("descent_check: a check that the budget does not pay for ends the run unmade",
          "[adaptive_noise][privacy]") {
  // A step costs 1/800 of rho, a check 1/18: two checks exceed the rho of epsilon 1.5.
  const Ended run({"schedules.noise_multiplier.check_noise_multiplier=3",
                   "schedules.noise_multiplier.raise=1e-9", "privacy.target_epsilon=1.5"});
  REQUIRE(core::rho_for(1.5, 1e-5) < 2.0 / 18.0);
  CHECK(run.result.status == core::RunStatus::budget_exhausted);
  CHECK(run.result.steps % 5 == 0);
  CHECK(run.measured.size() == run.result.steps / 5 - 1);
  CHECK(run.checks_in_ledger() == run.measured.size());
  CHECK(run.spent() <= 1.5);
}

TEST_CASE("adaptive noise without a first value begins where the budget lasts for all steps",
          "[adaptive_noise]") {
  Experiment checks(kAdaptiveNoise, {"schedules.noise_multiplier.initial=null"});
  const core::Plan& plan = checks.plan();
  const double rho = core::rho_for(2.0, 1e-5) - 7.0 / (2.0 * 30.0 * 30.0);
  CHECK_THAT(plan.noise_multiplier.front(), WithinRel(std::sqrt(40.0 / (2.0 * rho)), 1e-8));
  CHECK(plan.affordable_steps == 40);
  // With a constantly falling loss, the noise is never lowered, and all steps are made.
  Experiment validation(kAdaptiveNoise,
                        {"schedules.noise_multiplier={kind: validation, metric: loss, threshold: "
                         "0, every: 20}"});
  CHECK_THAT(validation.plan().noise_multiplier.front(),
             WithinRel(std::sqrt(40.0 / (2.0 * core::rho_for(2.0, 1e-5))), 1e-8));
  const auto result = validation.run();
  CHECK(result.status == core::RunStatus::completed);
  CHECK(result.summary.at("epsilon_spent") <= 2.0);
  CHECK(result.summary.at("epsilon_spent") > 2.0 * (1.0 - 1e-6));
}

TEST_CASE("adaptive noise: plan, statement and record say what is known, and when",
          "[adaptive_noise]") {
  const Ended run;
  Experiment before(kAdaptiveNoise);
  const Json plan = core::to_json(core::plan_facts(before.plan()));
  CHECK(plan.at("epsilon") == 2.0);
  CHECK(plan.at("noise_multiplier") == std::vector<double>(40, 20.0));
  // The event costs the whole budget, also when this run is composed with others.
  CHECK(plan.at("event").at("event") == "zcdp");
  CHECK_THAT(plan.at("event").at("rho").get<double>(), WithinRel(core::rho_for(2.0, 1e-5), 1e-9));
  const Json adapts = plan.at("adaptive_noise");
  CHECK(adapts.at("measured") == "loss_change");
  const double steps = plan.at("affordable_steps");
  CHECK(steps == 40.0);
  const double checks = 7.0 / (2.0 * 30.0 * 30.0);
  CHECK_THAT(adapts.at("checks_epsilon").get<double>(), WithinRel(epsilon_of(checks), 1e-12));
  CHECK_THAT(adapts.at("unchanged_epsilon").get<double>(),
             WithinRel(epsilon_of(checks + 40.0 / 800.0), 1e-12));

  CHECK(run.result.summary.at("accounted_event") == plan.at("event"));

  const Json& statement = run.result.statement;
  CHECK(statement.at("epsilon") == 2.0);
  CHECK(statement.at("charged_steps") == run.noise.size());
  CHECK(statement.at("mechanism").at("adaptive_noise").at("charged_checks") == run.measured.size());
  const std::string prose = statement.at("prose").dump();
  CHECK_THAT(prose, ContainsSubstring("It is the budget: the noise was chosen from earlier "
                                      "releases"));
  CHECK_THAT(prose, ContainsSubstring(" and " + std::to_string(run.measured.size()) +
                                      " checks of the loss that were paid for"));
  CHECK(statement.at("mechanism").at("noise_multiplier").at("smallest") ==
        *std::min_element(run.noise.begin(), run.noise.end()));
  // Composes the events again, as an accountant receives them.
  const auto accountant =
      house().create<Accountant>("zcdp", Value::Object{{"conversion", "classic", {}}});
  accountant->start(Adjacency::zero_out);
  for (const auto& release : run.experiment.ledger().releases)
    accountant->compose(Event::gaussian(release.event.at("noise_multiplier")), 1);
  CHECK_THAT(accountant->epsilon(1e-5).value, WithinRel(run.spent(), 1e-12));
}

TEST_CASE("adaptive noise: a run that is cut off leaves no noise that it did not use",
          "[adaptive_noise]") {
  Experiment experiment(kAdaptiveNoise);
  const core::Plan& plan = experiment.plan();
  std::atomic<bool> stop = true;
  const auto result = core::run(plan, {.directory = experiment.run_dir(),
                                       .lock = "",
                                       .threads = 1,
                                       .on_progress = {},
                                       .stop = &stop});
  CHECK(result.status == core::RunStatus::interrupted);
  CHECK(result.steps == 0);
  CHECK(result.statement.at("charged_steps") == 0);
  CHECK(result.statement.at("mechanism").at("noise_multiplier").is_null());
}

TEST_CASE("adaptive noise is the same on any number of threads", "[adaptive_noise]") {
  const Ended one({}, 1);
  const Ended three({}, 3);
  CHECK(one.measured == three.measured);
  CHECK(one.noise == three.noise);
  CHECK(one.experiment.parameters() == three.experiment.parameters());
}

TEST_CASE("validation: the noise falls exactly where public examples show no progress",
          "[adaptive_noise]") {
  int falls = 0, stays = 0;
  for (const char* metric : {"accuracy", "loss"}) {
    INFO(metric);
    const Ended run({kValidation, std::string("schedules.noise_multiplier.metric=") + metric,
                     "privacy.target_epsilon=20"});
    REQUIRE(run.noise.size() == 40);
    CHECK(run.checks_in_ledger() == 0);
    const auto shown = run.metric(metric == std::string("loss") ? "test_loss" : "test_accuracy");
    // Before the first step, and every 5 steps except after the last one.
    REQUIRE(run.measured.size() == 8);
    for (std::size_t i = 1; i < run.measured.size(); ++i) {
      CHECK(run.measured_at[i] == 5 * i);
      CHECK(run.measured[i] == shown[i - 1].second);
      const double change = run.measured[i] - run.measured[i - 1];
      const bool improved = (metric == std::string("loss") ? -change : change) > 0.01;
      ++(improved ? stays : falls);
      CHECK_THAT(run.noise[5 * i], WithinRel(run.noise[5 * i - 1] * (improved ? 1.0 : 0.8), 1e-14));
      for (std::size_t j = 1; j < 5; ++j) CHECK(run.noise[5 * i + j] == run.noise[5 * i]);
    }
    double rho = 0.0;
    for (const double sigma : run.noise) rho += 1.0 / (2.0 * sigma * sigma);
    CHECK_THAT(run.spent(), WithinRel(epsilon_of(rho), 1e-12));
  }
  CHECK(falls > 2);
  CHECK(stays > 1);
}

TEST_CASE("release mode: checks are charged and public examples are public", "[adaptive_noise]") {
  for (const Overrides& schedule : {Overrides{}, Overrides{kValidation}}) {
    Experiment experiment(kAdaptiveNoise, with(schedule, {"mode=release", "seed=null"}));
    const auto result = experiment.run();
    CHECK(result.statement.at("unaccounted").empty());
    CHECK(result.epsilon.value == 2.0);
    CHECK_FALSE(result.metrics.train_loss);
  }
}

TEST_CASE("adaptive noise: only a privacy filter may guard it", "[adaptive_noise][privacy]") {
  for (const char* accountant : {"rdp", "pld", "gdp", "saddle_point"}) {
    const std::string text = adaptive_refusal({std::string("privacy.accountant=") + accountant});
    CHECK_THAT(text, ContainsSubstring(std::string(accountant) + " is not a privacy filter"));
    CHECK_THAT(text, ContainsSubstring("use accountant zcdp"));
  }
  CHECK_THAT(adaptive_refusal({"privacy.also=[pld]"}), ContainsSubstring("remove privacy.also"));
  CHECK_THAT(adaptive_refusal({"privacy.target_epsilon=null"}),
             ContainsSubstring("set privacy.target_epsilon"));
  CHECK_THROWS_AS(Experiment(kAdaptiveNoise, {"privacy.accountant=rdp"}).plan(), PrivacyError);
}

TEST_CASE("adaptive noise: what it is not planned for is refused where it stands",
          "[adaptive_noise]") {
  CHECK_THAT(adaptive_refusal({"aggregator={kind: tree}"}),
             ContainsSubstring("use aggregator gaussian"));
  CHECK_THAT(adaptive_refusal({"clipping={kind: adaptive}"}),
             ContainsSubstring("use a clipping that keeps the clip norm"));
  CHECK_THAT(adaptive_refusal({"output=random_iterate"}), ContainsSubstring("use output: last"));
  CHECK_THAT(adaptive_refusal(
                 {"sampler={kind: shuffle, batch_size: 100}", "privacy.adjacency=replace_one"}),
             ContainsSubstring("each step must be charged in full; use full_batch"));
  CHECK_THAT(adaptive_refusal({"sampler={kind: poisson, batch_size: 100}"}),
             ContainsSubstring("amplification: false"));
  CHECK_THAT(adaptive_refusal({"schedules.clip_norm={kind: validation}"}),
             ContainsSubstring("its place is schedules.noise_multiplier"));
  CHECK_THAT(adaptive_refusal({"schedules.learning_rate={kind: validation}"}),
             ContainsSubstring("its place is schedules.noise_multiplier"));
  CHECK_THAT(adaptive_refusal({kValidation, "data.test_is_public=false"}),
             ContainsSubstring("data.test_is_public: true"));
  CHECK_THAT(adaptive_refusal({kValidation, "data.test_rows=0"}),
             ContainsSubstring("there are none"));
  CHECK_THAT(adaptive_refusal({kValidation, "data.target=linear"}),
             ContainsSubstring("use metric: loss"));
  CHECK_THROWS_AS(Experiment(kAdaptiveNoise, {kValidation, "data.test_is_public=false"}).plan(),
                  PrivacyError);
  CHECK_THAT(adaptive_refusal({"federated={clients: 2, rounds: 5, local_iterations: 2}"}),
             ContainsSubstring("federated runs do not support"));
  // Batches without a claim of amplification are charged in full, and are accepted.
  Experiment unamplified(kAdaptiveNoise,
                         {"sampler={kind: poisson, batch_size: 100, amplification: false}"});
  CHECK(unamplified.run().epsilon.value == 2.0);
}

TEST_CASE("adaptive noise: without noise there is nothing to adapt, check or pay for",
          "[adaptive_noise]") {
  Experiment experiment(kAdaptiveNoise, {"privacy.noise=off"});
  const auto result = experiment.run();
  CHECK(result.status == core::RunStatus::completed);
  CHECK(std::isinf(result.epsilon.value));
  CHECK_FALSE(result.summary.contains("adaptive_noise"));
}

namespace {

/// Begins with 20, checks after every 5 steps, and then returns whatever a test chooses.
class AnyNoise final : public Schedule {
 public:
  explicit AnyNoise(const Params&) {}
  void start(const Horizon&) override {}
  double value(std::uint64_t) const override { return 20.0; }
  bool is_shape() const override { return false; }
  std::optional<Measurement> measurement() const override {
    return Measurement{
        .what = Measured::loss_change, .every = 5, .loss_bound = 2.0, .noise_multiplier = 30.0};
  }
  double next(double, std::span<const double>) const override { return wanted; }
  inline static double wanted = 0.0;
};

Experiment with_noise(double wanted) {
  static const Catalog catalog =
      house_with({offer<Schedule, AnyNoise>("any_noise", {"adaptive_noise"})});
  AnyNoise::wanted = wanted;
  return Experiment(kAdaptiveNoise, {"schedules.noise_multiplier=any_noise"}, catalog);
}

}  // namespace

TEST_CASE("adaptive noise: a schedule that asks for no noise ends the run before the step",
          "[adaptive_noise][privacy]") {
  for (const double next : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    INFO(next);
    Experiment experiment = with_noise(next);
    CHECK_THROWS_AS(experiment.run(), PluginError);
    CHECK(experiment.ledger().releases.size() == 6);  // five steps and the check
  }
  // Whatever noise the schedule requests is paid for, or the step is not made.
  Experiment greedy = with_noise(1e-3);
  const auto result = greedy.run();
  CHECK(result.steps == 5);
  CHECK(result.status == core::RunStatus::budget_exhausted);
  CHECK(greedy.ledger().releases.back().epsilon <= 2.0);
}
