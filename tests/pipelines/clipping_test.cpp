#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "privgrad/data/executor.hpp"
#include "privgrad/plan/exact_plan.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/studies/audit.hpp"
#include "privgrad/train/trainer.hpp"
#include "train.hpp"
#include "verify.hpp"

using namespace privgrad;

namespace {

/// Poisson batches of two clusters; each test changes a line or two.
constexpr const char* kClipping = R"(privgrad: 1
name: base
seed: 1
data: {kind: synthetic, rows: 400, test_rows: 50, dimensions: 10, test_is_public: true, size: 400}
model: {kind: mlp, hidden: [8]}
sampler: {kind: poisson, batch_size: 80}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 1.0, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
steps: 20
)";

nlohmann::json last_measurement(const Experiment& experiment) {
  const std::string text = read_file(experiment.run_dir() / "metrics.jsonl");
  const std::size_t begin = text.rfind('\n', text.size() - 2);
  return nlohmann::json::parse(text.substr(begin == text.npos ? 0 : begin + 1));
}

}  // namespace

TEST_CASE("clipping is flat unless the manifest says otherwise", "[run][clipping]") {
  Experiment unsaid(kClipping), flat(kClipping, {"clipping=flat"}),
      other(kClipping, {"clipping=per_layer"});
  const auto result = unsaid.run();
  flat.run();
  other.run();
  CHECK(unsaid.parameters() == flat.parameters());
  CHECK(unsaid.parameters() != other.parameters());
  CHECK(result.summary.at("clipping") == "flat");
  CHECK(result.summary.at("clip_norm") == 1.0);
  CHECK(unsaid.ledger().facts.at("clipping") == "privgrad.flat:flat");
}

TEST_CASE("every clipping costs the same and learns", "[run][clipping]") {
  const std::string name =
      GENERATE("flat", "per_layer", "automatic", "normalized", "adaptive", "adaclip");
  Experiment experiment(kClipping, {"clipping=" + name, "steps=100"});
  Experiment flat(kClipping, {"steps=100"});
  const auto result = experiment.run();
  CHECK(result.epsilon.value == flat.plan().epsilon().value);
  CHECK(result.metrics.test_accuracy.value() > 0.9);
}

TEST_CASE("weights of layers that do not fit the model are refused with their place",
          "[plan][clipping]") {
  Experiment experiment(kClipping, {"clipping={kind: per_layer, weights: [1, 2, 3]}"});
  CHECK_THROWS_WITH(experiment.plan(),
                    ContainsSubstring("--set clipping") &&
                        ContainsSubstring("3 weights, expected one for each of the 2 layers"));
}

TEST_CASE("adaptive clipping is charged with its count, as one release a step",
          "[plan][run][clipping][privacy]") {
  Experiment experiment(kClipping, {"clipping={kind: adaptive, count_noise: 2}"});
  const auto& plan = experiment.plan();
  CHECK(plan.count_noise == std::vector<double>(20, 2.0));
  // z = 1 for both: 1/z_delta^2 = 1 - 1/16 for the gradients, 1/16 for the count.
  CHECK(plan.count_share == std::vector<double>(20, 0.25));
  const auto json = core::to_json(core::plan_facts(plan));
  CHECK(json.at("count_noise") == plan.count_noise);
  // (1 - 1/16)^(-1/2)
  CHECK_THAT(json.at("gradient_noise_multiplier").at(19).get<double>(), WithinRel(1.0327955, 1e-6));
  experiment.run();
  const auto ledger = experiment.ledger();
  REQUIRE(ledger.releases.size() == 20);
  for (const auto& release : ledger.releases) {
    CHECK(release.event.at("of").at("noise_multiplier") == 1.0);
  }
  CHECK(ledger.facts.at("clipping") == "privgrad.adaptive:adaptive");
}

TEST_CASE("the adaptive clip norm finds the quantile of the gradient norms", "[run][clipping]") {
  // A linear model whose parameters stay zero: the gradient of an example x is (p - y) x' with p -
  // y = +-(1/2, -1/2), so its norm is sqrt((||x||^2 + 1) / 2).
  const auto clip_norm_after = [](const std::string& quantile, const std::string& noise) {
    Experiment experiment(
        kClipping, {"model={kind: linear, initialisation: zeros}", "schedules.learning_rate=0",
                    "sampler=full_batch", "privacy.adjacency=zero_out", "steps=300",
                    "clipping={kind: adaptive, quantile: " + quantile + "}", noise});
    const auto rows = experiment.plan().setting->data->read(Split::train);
    const double found = experiment.run().summary.at("clip_norm").get<double>();
    CHECK(last_measurement(experiment).at("clip_norm") == found);
    std::vector<float> features(rows.row_size() * rows.rows()), targets(rows.rows());
    std::vector<std::uint32_t> all(rows.rows());
    for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
    rows.gather(all, features, targets);
    std::size_t within = 0;
    for (std::size_t i = 0; i < rows.rows(); ++i) {
      double squares = 1.0;
      for (std::size_t j = 0; j < rows.row_size(); ++j) {
        squares += std::pow(static_cast<double>(features[i * rows.row_size() + j]), 2.0);
      }
      if (std::sqrt(squares / 2.0) <= found) ++within;
    }
    return static_cast<double>(within) / static_cast<double>(rows.rows());
  };
  // Without noise the clip norm settles between two neighbours of the quantile.
  CHECK_THAT(clip_norm_after("0.5", "privacy.noise=off"), WithinAbs(0.5, 0.01));
  CHECK_THAT(clip_norm_after("0.9", "privacy.noise=off"), WithinAbs(0.9, 0.01));
  // With noise of 20 for 400 examples, i.e. 0.05, each step changes the clip norm's logarithm by at
  // most some hundredths.
  CHECK_THAT(clip_norm_after("0.5", "schedules.noise_multiplier=1"), WithinAbs(0.5, 0.15));
}

TEST_CASE("adaptive clipping refuses what would make its clip norm or its noise untrue",
          "[plan][clipping]") {
  const auto refused = [](std::vector<std::string> overrides, const std::string& why) {
    overrides.push_back("clipping={kind: adaptive, count_noise: 2}");
    Experiment experiment(kClipping, overrides);
    CHECK_THROWS_AS(experiment.plan(), ConfigError);
    Experiment again(kClipping, overrides);
    CHECK_THROWS_WITH(again.plan(), ContainsSubstring(why));
  };
  refused({"schedules.clip_norm={kind: exponential, initial: 2, rate: 0.1}"},
          "decides about the clip norm after the first step");
  refused({"schedules.noise_multiplier=null", "schedules.noise_std=1"},
          "noise follows the clip norm");
  refused({"schedules.noise_multiplier=4"}, "more than half the noise multiplier");
}

TEST_CASE("adaptive clipping is the same on any number of threads", "[run][clipping]") {
  Experiment one(kClipping, {"clipping=adaptive"}), two(kClipping, {"clipping=adaptive"});
  const auto first = one.run(1);
  const auto second = two.run(2);
  CHECK(one.parameters() == two.parameters());
  CHECK(first.summary.at("clip_norm") == second.summary.at("clip_norm"));
  CHECK(first.summary.at("clip_norm") != 1.0);
}

TEST_CASE(
    "scaled coordinates are exact, charged as one Gaussian release a step, stated, and verify",
    "[run][clipping][privacy]") {
  const std::vector<std::string> overrides{"clipping=adaclip"};
  Experiment scaled(kClipping, overrides), flat(kClipping);
  CHECK(scaled.plan().covers_bits());
  CHECK(scaled.plan().event == flat.plan().event);
  CHECK(scaled.plan().noise_multiplier == flat.plan().noise_multiplier);
  const auto result = scaled.run(1);
  flat.run();
  CHECK(scaled.parameters() != flat.parameters());
  CHECK(result.statement.at("floating_point") == "exact");
  CHECK(result.statement.at("mechanism").at("scales_coordinates") == true);
  CHECK(verify::all_of(verify::check(scaled.run_dir()).problems) == "");
  Experiment threads(kClipping, overrides);
  threads.run(3);
  CHECK(threads.parameters() == scaled.parameters());
}

TEST_CASE("with a mean of zero and one variance for all, adaclip is flat clipping to another norm",
          "[run][clipping]") {
  // With 106 parameters, b is sqrt(v) sqrt(106) for each, so a clip norm of C / b for scaled
  // gradients equals a clip norm of C for gradients. b is not a power of two, so rows are rounded
  // differently.
  const double b = 0.5 * std::sqrt(106.0);
  const std::string with =
      "clipping={kind: adaclip, mean_decay: 1, variance_decay: 1, least_variance: 0.25, "
      "most_variance: 0.25}";
  Experiment flat(kClipping, {"schedules.clip_norm=1.5"});
  Experiment scaled(kClipping, {with, "schedules.clip_norm=" + std::to_string(1.5 / b)});
  REQUIRE(flat.plan().parameters == 106);
  flat.run();
  scaled.run();
  const std::vector<float> a = flat.parameters(), c = scaled.parameters();
  REQUIRE(a.size() == c.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK_THAT(a[i], WithinAbs(c[i], 1e-3));
}

TEST_CASE("a release is brought back by what its own step was scaled by", "[run][clipping]") {
  // The numbers learnt from the first step affect the second step.
  const auto with = [](const std::string& decays) {
    return "clipping={kind: adaclip, least_variance: 0.0001, most_variance: 1" + decays + "}";
  };
  const auto parameters = [&](const std::string& decays, const std::string& steps) {
    Experiment experiment(kClipping, {with(decays), "steps=" + steps});
    experiment.run();
    return experiment.parameters();
  };
  const std::string keeps = ", mean_decay: 1, variance_decay: 1";
  const std::string forgets = ", mean_decay: 0.5, variance_decay: 0";
  CHECK(parameters(keeps, "1") == parameters(forgets, "1"));
  CHECK(parameters(keeps, "2") != parameters(forgets, "2"));
}

// The noise dominates the gradients, so each step's change is its noise. The correlation of two
// independent noises is normal with variance 1/106.
TEST_CASE("the noise of a step follows what its coordinates are scaled by",
          "[run][clipping][privacy]") {
  const auto changed_by_step = [](const std::string& least_variance) {
    Experiment experiment(kClipping, {"clipping={kind: adaclip, least_variance: " + least_variance +
                                          ", most_variance: 1}",
                                      "schedules.noise_multiplier=1000"});
    const core::Plan& plan = experiment.plan();
    const auto executor = core::make_executor(1);
    core::Workbench bench = core::make_workbench(plan, *executor);
    const core::RandomKey key = core::RandomKey::from_seed(1);
    const std::vector<float> before = core::initial_parameters(plan, key);
    bench.load(before);
    const core::RunData data = core::read_data(*plan.manifest, *plan.setting);
    core::Trainer trainer(plan, data.train, key, *executor);
    trainer.open_ledger(experiment.dir() / "ledger.jsonl", nlohmann::json::object());
    trainer.use_key_of_step(core::RandomKey::from_seed(2));
    REQUIRE(trainer.pay_for(0));
    REQUIRE(trainer.take_step(0, bench));
    std::vector<double> change(before.begin(), before.end());
    for (std::size_t i = 0; i < change.size(); ++i)
      change[i] = static_cast<double>(bench.parameters[i]) - change[i];
    return change;
  };
  const auto correlation = [](const std::vector<double>& a, const std::vector<double>& b) {
    const auto dot = [](const auto& x, const auto& y) {
      return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
    };
    return dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
  };
  const std::vector<double> one = changed_by_step("0.25");
  CHECK_THAT(correlation(one, changed_by_step("0.25")), WithinAbs(1.0, 1e-9));
  CHECK(std::fabs(correlation(one, changed_by_step("0.25001"))) < 6.0 / std::sqrt(106.0));
}

TEST_CASE("adaclip refuses where its noise would not be what is said", "[plan][clipping]") {
  const auto refused = [](std::vector<std::string> overrides, const std::string& why) {
    overrides.insert(overrides.begin(), "clipping=adaclip");
    INFO(overrides.back());
    Experiment experiment(kClipping, overrides);
    CHECK_THROWS_WITH(experiment.plan(), ContainsSubstring(why) && ContainsSubstring("adaclip"));
  };
  const std::string federated = "federated={clients: 2, rounds: 2, local_iterations: 1";
  refused({federated + "}"}, "is for central runs");
  refused({"clipping=flat", federated + ", aggregation: dp_fed_avg, client_clip_norm: 1, "
                                        "client_clipping: adaclip}"},
          "is for central runs");
  refused({"schedules.noise_multiplier=null", "schedules.noise_std=1"}, "in units of gradients");
  refused({"clipping={kind: adaclip, least_variance: 2, most_variance: 1}"}, "least_variance is 2");
  Experiment tree(kClipping, {"clipping=adaclip", "aggregator={kind: tree, momentum: 0.9}",
                              "sampler={kind: shuffle, batch_size: 40}",
                              "privacy.adjacency=zero_out", "privacy.accountant=zcdp"});
  CHECK_THROWS_WITH(tree.plan(), ContainsSubstring("clipping") &&
                                     ContainsSubstring("scales the coordinates of gradients anew"));
}

TEST_CASE("audits refuse a clipping under which no gradient is still a contribution",
          "[audit][clipping]") {
  Experiment experiment(kClipping,
                        {"clipping=adaclip", "sampler=full_batch", "privacy.adjacency=zero_out"});
  CHECK_THROWS_WITH(core::audit(experiment.plan(), {}),
                    ContainsSubstring("audit the plan with another clipping"));
}
