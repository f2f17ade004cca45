// The results of a study whose runs have known outcomes. With two pairs Student's t has one degree
// of freedom, which is Cauchy's distribution: p = 1 - (2/pi) atan |t|, t = mean / (|d1 - d2| / 2),
// and the 95 % interval is the mean +- tan(0.95 pi/2) |d1 - d2| / 2.
#include "privgrad/studies/study_results.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numbers>

#include "privgrad/studies/choice_cost.hpp"
#include "privgrad/studies/scored_rows.hpp"
#include "privgrad/studies/study.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

core::StudyPlan planned_with(const std::string& more,
                             const std::string& metrics = "[train_loss, test_accuracy]") {
  return core::plan_study(core::parse_study("metrics: " + metrics + R"(
study: 1
seeds: 2
base:
  privgrad: 1
  data: {kind: synthetic, rows: 200, test_rows: 50, dimensions: 6}
  model: linear
  sampler: full_batch
  optimizer: sgd
  schedules: {noise_multiplier: uniform, clip_norm: 1, learning_rate: 0.5}
  privacy: {target_epsilon: 2, target_delta: 1e-6, adjacency: zero_out, accountant: zcdp}
  steps: 12
)" + more,
                                            "/nowhere/s.yaml"),
                          {}, house());
}

const std::string kThreeArms = "axes: {optimizer: [sgd, adam, {kind: momentum, beta: 0.9}]}\n";

core::StudyPlan three_arms() { return planned_with(kThreeArms); }

core::RunRecord ended(double loss, std::optional<double> accuracy = 0.5) {
  return {.status = "completed",
          .steps = 12,
          .epsilon = 1.999,
          .delta = 1e-6,
          .metrics = {{"train_loss", loss},
                      {"train_accuracy", 0.5},
                      {"test_loss", 0.7},
                      {"test_accuracy", accuracy}}};
}

/// Arms whose losses differ from the baseline's, 1 and 2, by these; one pair of seeds each.
core::StudyRuns with_differences(std::array<double, 2> second, std::array<double, 2> third) {
  return {{ended(1.0), ended(2.0)},
          {ended(1.0 + second[0]), ended(2.0 + second[1])},
          {ended(1.0 + third[0]), ended(2.0 + third[1])}};
}

std::string words_of(const nlohmann::json& results, std::size_t i) {
  return results.at("words").at(i).get<std::string>();
}

double two_pair_p(double first, double second) {
  const double t = std::abs(first + second) / std::abs(first - second);
  return 1.0 - 2.0 / std::numbers::pi * std::atan(t);
}

}  // namespace

TEST_CASE("differences are taken from the baseline, pair by pair", "[study]") {
  const auto results = core::results_json(three_arms(), with_differences({-0.25, -0.5}, {0.5, -1}));
  const auto& arm = results.at("arms").at(1).at("versus_baseline").at("train_loss");
  CHECK(arm.at("difference") == -0.375);
  CHECK_THAT(arm.at("p").get<double>(), WithinRel(two_pair_p(-0.25, -0.5), 1e-12));
  CHECK(arm.at("p_sign_flip") == 0.5);
  const double half = std::tan(0.95 * std::numbers::pi / 2.0) * 0.125;
  CHECK_THAT(arm.at("ci95").at(0).get<double>(), WithinRel(-0.375 - half, 1e-9));
  CHECK_THAT(arm.at("ci95").at(1).get<double>(), WithinRel(-0.375 + half, 1e-9));
  // Two comparisons: Holm doubles the smaller p.
  CHECK_THAT(arm.at("p_holm").get<double>(), WithinRel(2.0 * two_pair_p(-0.25, -0.5), 1e-12));
  CHECK(results.at("arms").at(0).at("versus_baseline").empty());
  CHECK(results.at("arms").at(0).at("metrics").at("train_loss").at("mean") == 1.5);
}

TEST_CASE("a sentence says which way a difference goes, and whether that is better", "[study]") {
  auto runs = with_differences({-0.25, -0.5}, {0.25, 0.5});
  runs[1][0].metrics["test_accuracy"] = runs[1][1].metrics["test_accuracy"] = 0.75;
  runs[2][0].metrics["test_accuracy"] = 0.25;
  const auto results = core::results_json(three_arms(), runs);
  CHECK_THAT(words_of(results, 0), ContainsSubstring("train_loss is 0.375 lower (better)"));
  CHECK_THAT(words_of(results, 1), ContainsSubstring("test_accuracy is 0.25 higher (better)"));
  CHECK_THAT(words_of(results, 2), ContainsSubstring("train_loss is 0.375 higher (worse)"));
  CHECK_THAT(words_of(results, 3), ContainsSubstring("test_accuracy is 0.125 lower (worse)"));
}

TEST_CASE("a p is never said to be smaller than it is", "[study]") {
  // p = 0.204833: rounded to nearest it would be 0.2048.
  REQUIRE_THAT(two_pair_p(1.0, 2.0), WithinAbs(0.204833, 1e-6));
  const auto results = core::results_json(three_arms(), with_differences({1, 2}, {1, 2}));
  CHECK_THAT(words_of(results, 0),
             ContainsSubstring("p 0.2049 (Holm 0.4097, sign flips 0.5000; with 2 pairs they "
                               "cannot go below 0.5)"));
  const auto tiny = core::results_json(three_arms(), with_differences({1, 1.00001}, {1, 2}));
  CHECK_THAT(words_of(tiny, 0), ContainsSubstring("p below 0.0001"));
}

TEST_CASE("a verdict stands only after Holm's correction", "[study]") {
  // Without correction p is 0.0318 for both; the correction doubles it.
  const auto both = core::results_json(three_arms(), with_differences({1, 1.105}, {1, 1.105}));
  REQUIRE(two_pair_p(1.0, 1.105) < 0.05);
  REQUIRE(2.0 * two_pair_p(1.0, 1.105) > 0.05);
  CHECK_THAT(words_of(both, 0), ContainsSubstring("; this does not stand after Holm's correction"));
  const auto clear = core::results_json(three_arms(), with_differences({1, 1.01}, {1, -1}));
  CHECK_THAT(words_of(clear, 0),
             ContainsSubstring("; after Holm's correction Student's t finds it, and sign flips do "
                               "not"));
  // Differences that cancel are still differences.
  CHECK_THAT(words_of(clear, 2), ContainsSubstring("is equal on average"));
  CHECK_THAT(words_of(clear, 2), ContainsSubstring("; chance can explain it"));
  const auto same = core::results_json(three_arms(), with_differences({0, 0}, {1, 1}));
  CHECK_THAT(words_of(same, 0), ContainsSubstring("is that of the baseline in every pair"));
  CHECK_THAT(words_of(same, 2), ContainsSubstring("in all of 2 pairs alike"));
}

TEST_CASE("a reference has a mean, is compared with nothing, chosen by nobody, and costs no test",
          "[study][privacy]") {
  const core::StudyPlan plan = planned_with(
      "arms: {sgd: {}, adam: {optimizer: adam}, plain: {privacy.noise: \"off\"}}\n"
      "baseline: sgd\n");
  REQUIRE(plan.is_reference(2));
  const auto results = core::results_json(plan, with_differences({-0.25, -0.5}, {-0.9, -1.8}));
  const auto& reference = results.at("arms").at(2);
  CHECK_THAT(reference.at("metrics").at("train_loss").at("mean").get<double>(),
             WithinRel(0.15, 1e-9));
  CHECK(reference.at("versus_baseline").empty());
  // Only one comparison is left, so Holm's correction changes nothing.
  const auto& adam = results.at("arms").at(1).at("versus_baseline").at("train_loss");
  CHECK_THAT(adam.at("p_holm").get<double>(), WithinRel(two_pair_p(-0.25, -0.5), 1e-12));
  CHECK(results.at("choice").at("best") == "adam");  // the reference's loss is lower
}

// The arms' losses differ from the baseline's by known numbers.
TEST_CASE("that arms are equivalent is shown by two one-sided tests", "[study]") {
  const auto one_sided = [](double t) { return 0.5 - std::atan(t) / std::numbers::pi; };
  const auto plan = planned_with(kThreeArms + "equivalence: {train_loss: 0.5}\n");
  // Differences 0.1 -+ 0.01, and 0 -+ 1/sqrt(2), with standard deviation 1.
  const double spread = std::numbers::sqrt2 / 2.0;
  const auto results = core::results_json(plan, with_differences({0.09, 0.11}, {-spread, spread}));
  const auto& narrow = results.at("arms").at(1).at("versus_baseline").at("train_loss");
  CHECK(narrow.at("margin") == 0.5);
  const double p = one_sided((0.5 - 0.1) / 0.01);
  CHECK_THAT(narrow.at("p_equivalent").get<double>(), WithinRel(p, 1e-9));
  CHECK_THAT(narrow.at("p_equivalent_holm").get<double>(), WithinRel(2.0 * p, 1e-9));
  CHECK_THAT(words_of(results, 0), ContainsSubstring("; that it is within 0.5 stands (p 0.0080, "
                                                     "Holm 0.0160)"));
  const auto& wide = results.at("arms").at(2).at("versus_baseline").at("train_loss");
  CHECK_THAT(wide.at("p_equivalent").get<double>(), WithinRel(one_sided(0.5 / spread), 1e-9));
  CHECK_THAT(words_of(results, 2), ContainsSubstring("; that it is within 0.5 is not shown"));
  // G*Power 3.1, paired t test, two tails, effect size 0.5, power 0.8.
  CHECK(wide.at("seeds_to_find") == nlohmann::json{{"effect", 0.5}, {"seeds", 34}});
  CHECK_THAT(words_of(results, 2),
             ContainsSubstring("one test of a difference of 0.5 would take 34 seeds to find it "
                               "with a probability of 0.8"));
}

TEST_CASE("what stands is what sign flips confirm as well", "[study]") {
  const core::StudyPlan plan = planned_with("axes: {optimizer: [sgd, adam]}\n");
  const auto words = [&](const std::vector<double>& differences) {
    core::StudyRuns runs(2);
    for (const double difference : differences) {
      runs[0].push_back(ended(1.0));
      runs[1].push_back(ended(1.0 + difference));
    }
    return words_of(core::results_json(plan, runs), 0);
  };
  // Three pairs with the same sign: their sign flips give 2 of 8, whatever Student's t finds.
  const std::string few = words({1.0, 1.01, 1.02});
  CHECK_THAT(few, ContainsSubstring("sign flips 0.2500; with 3 pairs they cannot go below 0.25)"));
  CHECK_THAT(few, ContainsSubstring("Student's t finds it, and sign flips do not."));
  CHECK_THAT(few, !ContainsSubstring("stands"));
  // Six pairs give 2 of 64, which is significant.
  const std::string enough = words({1.0, 1.01, 1.02, 1.03, 1.04, 1.05});
  CHECK_THAT(enough, ContainsSubstring("sign flips 0.0313); this stands after Holm's correction."));
  // With more pairs than the limit for flips, only Student's t is used.
  std::vector<double> many;
  for (int i = 0; i < 21; ++i) many.push_back(1.0 + 0.01 * i);
  CHECK_THAT(words(many), ContainsSubstring("sign flips none); this stands after Holm's"));
}

TEST_CASE("a metric that one run lacks is not compared, and its mean is not made up", "[study]") {
  auto runs = with_differences({-1, -2}, {-1, -2});
  runs[1][1].status = "diverged";
  runs[1][1].steps = 7;
  runs[1][1].metrics["train_loss"] = std::nullopt;
  runs[2][0].metrics["train_loss"] = std::numeric_limits<double>::infinity();
  const auto results = core::results_json(three_arms(), runs);
  for (const std::size_t arm : {1u, 2u}) {
    const auto& json = results.at("arms").at(arm);
    CHECK(json.at("metrics").at("train_loss").at("mean").is_null());
    CHECK(json.at("versus_baseline").at("train_loss").at("p").is_null());
    CHECK_THAT(
        words_of(results, 2 * (arm - 1)),
        ContainsSubstring(arm == 1 ? "1 of 2 runs diverged" : "was not measured in every run"));
  }
  CHECK(results.at("arms").at(1).at("statuses") ==
        nlohmann::json({{"completed", 1}, {"diverged", 1}}));
  CHECK(results.at("arms").at(1).at("steps").at(1) == 7);
  // An arm with an unknown result cannot be the best, however good its other runs are.
  CHECK(results.at("choice").at("best") == results.at("arms").at(0).at("name"));
}

TEST_CASE("an arm with a run that diverged is compared in nothing, however it was measured",
          "[study]") {
  auto runs = with_differences({-1, -1.01}, {-1, -1.01});
  runs[1][0].status = "diverged";
  const auto results = core::results_json(three_arms(), runs);
  for (const char* metric : {"train_loss", "test_accuracy"}) {
    const auto& arm = results.at("arms").at(1);
    CHECK(arm.at("metrics").at(metric).at("mean").is_null());
    CHECK(arm.at("versus_baseline").at(metric).at("p").is_null());
  }
  CHECK_THAT(words_of(results, 0), ContainsSubstring("is not compared: 1 of 2 runs diverged."));
  CHECK(results.at("choice").at("best") == results.at("arms").at(2).at("name"));
  runs[1][0].status = "completed";
  runs[0][1].status = "diverged";
  CHECK_THAT(words_of(core::results_json(three_arms(), runs), 0),
             ContainsSubstring("1 of 2 runs of the baseline diverged."));
}

TEST_CASE("the best arm is the best by the first metric, in its direction", "[study]") {
  const auto lower = core::results_json(three_arms(), with_differences({-0.1, -0.1}, {0.1, 0.1}));
  CHECK(lower.at("choice").at("best") == lower.at("arms").at(1).at("name"));
  // Among equal arms the first is chosen, which is usually the simplest.
  const auto equal = core::results_json(three_arms(), with_differences({0, 0}, {0, 0}));
  CHECK(equal.at("choice").at("best") == equal.at("arms").at(0).at("name"));
  auto runs = with_differences({-0.1, -0.1}, {0.1, 0.1});
  for (core::RunRecord& run : runs[2]) run.metrics["test_accuracy"] = 0.9;
  const auto higher =
      core::results_json(planned_with(kThreeArms, "[test_accuracy, train_loss]"), runs);
  CHECK(higher.at("choice").at("best") == higher.at("arms").at(2).at("name"));
}

TEST_CASE("rows are read alike if only keys that choose rows differ, of sources that are known",
          "[study][privacy]") {
  const core::StudyPlan plan = planned_with(
      "arms: {one: {}, other: {data.seed: 2}, wider: {data.separation: 5, data.seed: 2}}\n");
  const core::Manifest& one = *plan.arms[0].manifest;
  core::Manifest& other = *plan.arms[1].manifest;
  CHECK(core::read_alike(one, other));
  CHECK_FALSE(core::read_alike(other, *plan.arms[2].manifest));
  // For a third-party source, the effect of a seed is unknown.
  Component foreign = *one.data.component;
  PluginIdentity acme = *foreign.plugin;
  acme.name = "acme.rows";
  foreign.plugin = std::make_shared<PluginIdentity>(acme);
  other.data.component = &foreign;
  CHECK_FALSE(core::read_alike(other, one));
  CHECK(core::read_alike(other, other));
  other.data.component = one.data.component;
}

// Other tests check the results of these functions; this test checks that they are called for this
// study.
TEST_CASE("what choosing costs is asked of all runs, and of each distribution",
          "[study][privacy]") {
  const core::StudyPlan plan = planned_with("axes: {optimizer: [sgd, adam]}\n");
  const core::StudyRuns runs{{ended(1), ended(1)}, {ended(2), ended(2)}};
  const auto choice = core::results_json(plan, runs).at("choice");
  const std::vector<const core::Plan*> arms{&plan.arms[0].plan, &plan.arms[1].plan};
  CHECK(choice.at("fixed_grid").at("runs") == 4);
  CHECK(choice.at("fixed_grid").at("epsilon") ==
        core::composed_cost({{arms[0], 2}, {arms[1], 2}}, 1e-6).epsilon->value);
  std::map<std::string, nlohmann::json> random;
  for (const auto& one : choice.at("random_number")) random[one.at("distribution")] = one;
  const auto cost = [&](double shape) {
    return core::random_number_cost(arms, shape, 2.0, 1e-6).epsilon->value;
  };
  CHECK(random.at("geometric").at("epsilon") == cost(1.0));
  CHECK(random.at("poisson").at("epsilon") == cost(RepeatAndSelectEvent::kPoisson));
  CHECK(random.at("poisson").at("accountant").is_string());
  CHECK(random.at("geometric").at("epsilon") != random.at("poisson").at("epsilon"));
  // In words, epsilon is never rounded down, and four digits are enough.
  const std::string words = choice.at("words").at(1);
  const double said = std::stod(words.substr(words.find("epsilon ") + 8));
  CHECK(said >= choice.at("fixed_grid").at("epsilon").get<double>());
  CHECK(said < choice.at("fixed_grid").at("epsilon").get<double>() + 1e-4);
}

TEST_CASE("a score is public only if it is of test rows that every arm declares public",
          "[study][privacy]") {
  const auto score_of = [](const std::string& metrics, const std::string& more) {
    const core::StudyPlan plan = planned_with(kThreeArms + more, metrics);
    const auto results = core::results_json(plan, with_differences({1, 2}, {1, 2}));
    return results.at("choice").at("score").get<std::string>();
  };
  const std::string declared = "set: {data.test_is_public: true}\n";
  CHECK(score_of("[test_accuracy]", declared) == "public");
  CHECK(score_of("[train_loss]", declared) == "private");
  CHECK(score_of("[test_accuracy]", "") == "private");
  const core::StudyPlan mixed =
      planned_with("axes: {data.test_is_public: [true, false]}\n", "[test_accuracy]");
  const core::StudyRuns runs{{ended(1), ended(1)}, {ended(1), ended(1)}};
  CHECK(core::results_json(mixed, runs).at("choice").at("score") == "private");
}

TEST_CASE("results.csv has one row a run, in the study's order", "[study]") {
  const core::StudyPlan plan = planned_with(
      "axes: {schedules.noise_multiplier: [uniform, {kind: list, "
      "values: [3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1]}]}\n");
  core::StudyRuns runs{{ended(0.1), ended(0.2)}, {ended(0.3), ended(0.4, std::nullopt)}};
  runs[0][0].epsilon = std::nullopt;
  const std::string list = plan.arms[1].arm->name;
  const std::string label = plan.arms[1].arm->labels.at("schedules.noise_multiplier");
  CAPTURE(label);
  CHECK(core::results_csv(plan, runs) ==
        "arm,seed,schedules.noise_multiplier,status,steps,epsilon,delta,train_loss,train_accuracy,"
        "test_loss,test_accuracy\n"
        "uniform,1,uniform,completed,12,inf,1e-06,0.1,0.5,0.7,0.5\n"
        "uniform,2,uniform,completed,12,1.999,1e-06,0.2,0.5,0.7,0.5\n" +
            list + ",1," + label + ",completed,12,1.999,1e-06,0.3,0.5,0.7,0.5\n" + list + ",2," +
            label + ",completed,12,1.999,1e-06,0.4,0.5,0.7,\n");
}
