#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "privgrad/plan/read_data.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "train.hpp"

using Catch::Matchers::EndsWith;
using namespace privgrad;
namespace fs = std::filesystem;

namespace {

/// Full-batch gradient descent on two clusters; each test changes a line or two.
constexpr const char* kShortRun = R"(privgrad: 1
name: base
seed: 1
data: {kind: synthetic, rows: 200, test_rows: 50, dimensions: 10, test_is_public: true}
model: {kind: linear}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules: {noise_multiplier: {kind: uniform}, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 4, target_delta: 1e-8, adjacency: zero_out, accountant: {kind: zcdp, conversion: classic}}
steps: 20
)";

double inverse_squares(const std::vector<double>& multipliers) {
  double sum = 0.0;
  for (const double sigma : multipliers) sum += 1.0 / (sigma * sigma);
  return sum;
}

}  // namespace

TEST_CASE("a run leaves its whole record", "[run]") {
  Experiment experiment(kShortRun);
  const auto result = experiment.run();
  CHECK(result.status == core::RunStatus::completed);
  CHECK(result.steps == 20);
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(experiment.run_dir()))
    files.insert(entry.path().filename());
  CHECK(files == std::set<std::string>{"facts.json", "ledger.jsonl", "manifest.yaml",
                                       "metrics.jsonl", "model.safetensors", "privgrad.lock",
                                       "schedules.json", "statement.json", "summary.json"});

  const auto summary = nlohmann::json::parse(read_file(experiment.run_dir() / "summary.json"));
  for (const char* key : {"status", "steps", "epsilon", "delta", "accountant", "metrics",
                          "unaccounted", "mode", "reproducible", "seconds", "run_dir"}) {
    CHECK(summary.contains(key));
  }
  CHECK(summary.at("reproducible") == true);
  CHECK(summary.at("mode") == "research");
  CHECK(experiment.parameters().size() == experiment.plan().parameters);

  const auto ledger = experiment.ledger();
  CHECK(ledger.status == "completed");
  REQUIRE(ledger.releases.size() == 20);
  CHECK(ledger.releases.back().epsilon == summary.at("epsilon").get<double>());
}

TEST_CASE("it learns", "[run]") {
  // Two clusters with distance ten: without noise, a linear model separates them completely.
  Experiment quiet(kShortRun, {"privacy.noise=off", "steps=100"});
  CHECK(quiet.run().metrics.test_accuracy.value() > 0.97);
}

TEST_CASE("the budget is met with equality under zCDP", "[plan][privacy]") {
  // (4, 1e-8) with the classic conversion is rho = (sqrt(eps + L) - sqrt(L))^2 = 0.19635185, L =
  // ln(1e8), and sum 1/sigma_t^2 = R = 2 rho = 0.39270371 (Hong et al., section 3, with a corrected
  // sign).
  Experiment experiment(kShortRun);
  const double budget = inverse_squares(experiment.plan().noise_multiplier);
  CHECK_THAT(budget, WithinRel(0.39270370688056744, 1e-9));
  CHECK(experiment.plan().epsilon().value <= 4.0);
  CHECK(experiment.plan().epsilon().value >= 4.0 * (1 - 1e-9));
}

TEST_CASE("any shape is scaled to the same budget", "[plan][privacy]") {
  for (const char* shape : {"{kind: exponential, rate: 0.97}", "{kind: cosine, final: 0.3}"}) {
    Experiment experiment(kShortRun, {std::string("schedules.noise_multiplier=") + shape});
    const auto& plan = experiment.plan();
    CHECK_THAT(inverse_squares(plan.noise_multiplier), WithinRel(0.39270370688056744, 1e-9));
    CHECK(plan.epsilon().value <= 4.0);
    CHECK(plan.noise_multiplier.front() > plan.noise_multiplier.back());
  }
}

TEST_CASE("replace_one costs twice the noise of zero_out", "[plan][privacy]") {
  Experiment zero_out(kShortRun), replace_one(kShortRun, {"privacy.adjacency=replace_one"});
  CHECK_THAT(replace_one.plan().noise_multiplier.front(),
             WithinRel(2.0 * zero_out.plan().noise_multiplier.front(), 1e-9));
}

TEST_CASE("what is charged is what is done: the ledger's events are the plan's", "[run][privacy]") {
  Experiment experiment(kShortRun, {"schedules.noise_multiplier={kind: exponential, rate: 0.9}"});
  experiment.run();
  const auto ledger = experiment.ledger();
  REQUIRE(ledger.releases.size() == 20);
  for (std::size_t step = 0; step < 20; ++step) {
    CHECK(ledger.releases[step].event.at("noise_multiplier") ==
          experiment.plan().noise_multiplier[step]);
  }
}

TEST_CASE("an exhausted budget ends the run before the data is touched, with the model so far",
          "[run][privacy]") {
  // Absolute noise of sigma = 10: R = 0.39270 pays for 39 steps of 1/100 each, but not for 40.
  Experiment experiment(kShortRun, {"schedules.noise_multiplier=10", "steps=50"});
  CHECK(experiment.plan().affordable_steps == 39);
  const auto result = experiment.run();
  CHECK(result.status == core::RunStatus::budget_exhausted);
  CHECK(result.steps == 39);
  CHECK(result.epsilon.value <= 4.0);
  CHECK(experiment.ledger().releases.size() == 39);
  CHECK(experiment.ledger().status == "budget_exhausted");
  Experiment shorter(kShortRun, {"schedules.noise_multiplier=10", "steps=39"});
  shorter.run();
  CHECK(experiment.parameters() == shorter.parameters());
}

TEST_CASE("a budget that pays for no step is refused with its place in the manifest",
          "[plan][privacy]") {
  Experiment experiment(kShortRun, {"schedules.noise_multiplier=0.1"});
  CHECK_THROWS_AS(experiment.plan(), PrivacyError);
  Experiment again(kShortRun, {"schedules.noise_multiplier=0.1"});
  CHECK_THROWS_WITH(again.plan(),
                    ContainsSubstring("manifest.yaml:9:") && ContainsSubstring("single step"));
  CHECK_FALSE(fs::exists(again.run_dir()));
}

TEST_CASE("zCDP refuses amplified sampling and says what to do", "[plan][privacy]") {
  Experiment experiment(kShortRun, {"sampler={kind: poisson, sample_rate: 0.1}",
                                    "privacy.adjacency=add_or_remove_one"});
  CHECK_THROWS_AS(experiment.plan(), PrivacyError);
  Experiment without(kShortRun, {"sampler={kind: poisson, sample_rate: 0.1, amplification: false}",
                                 "privacy.adjacency=add_or_remove_one", "data.size=200"});
  CHECK_THAT(inverse_squares(without.plan().noise_multiplier),
             WithinRel(0.39270370688056744, 1e-9));
}

TEST_CASE("shuffled batches cost one release per epoch", "[plan][privacy]") {
  // 200 rows in batches of 50: 20 steps are 5 epochs, so sum 1/sigma^2 over epochs is R, and over
  // steps 4 R.
  Experiment experiment(kShortRun, {"sampler={kind: shuffle, batch_size: 50}"});
  CHECK_THAT(inverse_squares(experiment.plan().noise_multiplier),
             WithinRel(4 * 0.39270370688056744, 1e-9));
  CHECK(experiment.plan().batch_size.front() == 50.0);
  CHECK(experiment.run().epsilon.value <= 4.0);
}

TEST_CASE("empty Poisson batches are noised steps like any other", "[run][privacy]") {
  Experiment experiment(kShortRun,
                        {"sampler={kind: poisson, sample_rate: 0.0005, amplification: false}",
                         "privacy.adjacency=add_or_remove_one", "data.size=200", "steps=12"});
  const auto result = experiment.run();
  CHECK(result.status == core::RunStatus::completed);
  CHECK(experiment.ledger().releases.size() == 12);
  CHECK(experiment.parameters() != std::vector<float>(experiment.plan().parameters, 0.0f));
}

TEST_CASE("the same seed gives the same model, on any number of threads", "[run]") {
  Experiment one(kShortRun), two(kShortRun), other(kShortRun, {"seed=2"});
  one.run(1);
  two.run(2);
  other.run(1);
  CHECK(one.parameters() == two.parameters());
  CHECK(one.parameters() != other.parameters());
}

TEST_CASE("without a seed no two runs draw the same noise", "[run][privacy]") {
  std::string unseeded = kShortRun;
  unseeded.erase(unseeded.find("seed: 1\n"), 8);
  Experiment one(unseeded), two(unseeded);
  CHECK(one.run().summary.at("reproducible") == false);
  two.run();
  CHECK(one.parameters() != two.parameters());
}

TEST_CASE("swapping one component leaves the others' random numbers alone", "[run]") {
  // The optimizer differs, and the learning rate is 0: the result is the initialisation.
  Experiment sgd(kShortRun,
                 {"model={kind: mlp, hidden: [4]}", "schedules.learning_rate=0", "steps=2"});
  Experiment adam(kShortRun,
                  {"model={kind: mlp, hidden: [4]}", "schedules.learning_rate=0", "steps=2",
                   "optimizer=adam", "sampler={kind: shuffle, batch_size: 10}"});
  sgd.run();
  adam.run();
  CHECK(sgd.parameters() == adam.parameters());
}

TEST_CASE("release mode refuses what was not accounted, naming the line", "[plan][privacy]") {
  std::string yaml = kShortRun;
  yaml.replace(yaml.find("seed: 1"), 7, "mode: release");
  SECTION("nothing to refuse: it runs, and shows no metrics on private rows") {
    Experiment experiment(yaml);
    const auto result = experiment.run();
    CHECK(experiment.plan().unaccounted.empty());
    CHECK_FALSE(result.metrics.train_loss.has_value());
    CHECK_FALSE(result.metrics.train_accuracy.has_value());
    CHECK(result.metrics.test_accuracy.has_value());  // declared public
    CHECK(read_file(experiment.run_dir() / "metrics.jsonl").find("\"train_loss\":null") !=
          std::string::npos);
  }
  SECTION("a fitted transform") {
    Experiment experiment(yaml, {"data.transforms=[{kind: standardize}]"});
    CHECK_THROWS_AS(experiment.plan(), PrivacyError);
    // The advice must help: give numbers if parameters accept them, otherwise change the mode.
    CHECK_THROWS_WITH(experiment.plan(),
                      EndsWith("; say statistic: private and pay for it with a share of the budget "
                               "or a noise_multiplier, or use mode: research"));
    Experiment scaled(yaml, {"data.transforms=[{kind: scale_max_norm, to: 1}]"});
    CHECK_THROWS_WITH(scaled.plan(),
                      EndsWith("; give max_norm in the manifest, or use mode: research"));
    Experiment projected(yaml, {"data.transforms=[{kind: pca, dimensions: 2, statistic: public}]"});
    CHECK_THROWS_WITH(projected.plan(),
                      ContainsSubstring("pca (declared public)") &&
                          EndsWith("charged nowhere; say statistic: private and pay for it with a "
                                   "share of the budget or a noise_multiplier, or use mode: "
                                   "research"));
    // Declaring private rows public does not make their statistics public.
    Experiment declared(yaml, {"data.transforms=[{kind: standardize, statistic: public}]"});
    CHECK_THROWS_WITH(declared.plan(), ContainsSubstring("standardize (declared public)"));
    Experiment given(yaml, {"data.transforms=[{kind: scale_max_norm, to: 1, max_norm: 20}]"});
    CHECK(given.plan().unaccounted.empty());
  }
  SECTION("the size of the data, where adjacency makes it private") {
    Experiment experiment(yaml, {"privacy.adjacency=add_or_remove_one"});
    CHECK_THROWS_WITH(
        experiment.plan(),
        ContainsSubstring("number of training examples") &&
            EndsWith("; say in data.size which number is public, or have it released and paid "
                     "for (data.size: {about: N, statistic: private, share: S}), or use mode: "
                     "research"));
    Experiment declared(yaml, {"privacy.adjacency=add_or_remove_one", "data.size=200"});
    CHECK(declared.plan().unaccounted.empty());
  }
  SECTION("test metrics on rows that nobody declared public") {
    Experiment experiment(yaml, {"data.test_is_public=false"});
    CHECK_FALSE(experiment.run().metrics.test_loss.has_value());
  }
  SECTION("an epsilon that is not finite") {
    Experiment experiment(yaml,
                          {"schedules.noise_multiplier=1e-160", "privacy.target_epsilon=null"});
    CHECK_THROWS_WITH(experiment.plan(), ContainsSubstring("no finite epsilon"));
  }
  SECTION("nothing says how long the steps took") {
    Experiment experiment(yaml);
    CHECK(experiment.run().summary.at("seconds").is_null());
  }
  SECTION("a seed") {
    Experiment experiment(yaml, {"seed=1"});
    CHECK_THROWS_AS(experiment.plan(), PrivacyError);
  }
}

TEST_CASE("research mode lists what was not accounted, in every output", "[run][privacy]") {
  Experiment experiment(kShortRun,
                        {"data.transforms=[{kind: standardize}]", "data.test_is_public=false",
                         "data.read_off_rows=[bounds of the features]"});
  const auto result = experiment.run();
  const nlohmann::json expected{"bounds of the features", "standardize", "training metrics",
                                "test metrics"};
  CHECK(result.summary.at("unaccounted") == expected);
  CHECK(core::to_json(core::plan_facts(experiment.plan())).at("unaccounted") == expected);
  const std::string model = read_file(experiment.run_dir() / "model.safetensors");
  for (const char* fact : {"bounds of the features", "standardize"})
    CHECK(model.find(fact) != std::string::npos);
}

TEST_CASE("without noise nothing is claimed", "[run][privacy]") {
  Experiment experiment(kShortRun, {"privacy.noise=off"});
  const auto result = experiment.run();
  CHECK(result.summary.at("epsilon").is_null());
  CHECK(result.summary.at("unaccounted").at(0) == "everything: noise is off");
  CHECK_FALSE(fs::exists(experiment.run_dir() / "ledger.jsonl"));
}

TEST_CASE("two neighbouring data sets, one seed: the models differ by at most the sensitivity",
          "[privacy]") {
  // One step of size 1 from zero parameters: parameters = -(clipped sum + noise) / divisor, with
  // the same noise in both. Their distance is therefore the distance of the clipped sums divided by
  // the divisor; each example is far outside the bound, so the distance is also close to the
  // largest possible one.
  const auto parameters_for = [](const std::string& rows, const std::string& adjacency) {
    Experiment experiment(R"(privgrad: 1
name: neighbours
seed: 3
data: {kind: csv, train: train.csv, target: y, classes: 2, size: 3}
model: {kind: linear, loss: logistic}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 5.0, clip_norm: 0.5, learning_rate: 1.0}
privacy: {target_delta: 1e-5, adjacency: )" +
                          adjacency + ", accountant: zcdp}\nsteps: 1\n");
    write_file(experiment.dir() / "train.csv", "a,b,y\n" + rows);
    experiment.run();
    return experiment.parameters();
  };
  const auto distance = [](const std::vector<float>& a, const std::vector<float>& b) {
    double squares = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(a[i] - b[i], 2.0);
    return std::sqrt(squares);
  };
  const double bound = 0.5 / 3.0;
  SECTION("one example more or less") {
    const auto with = parameters_for("1e4,0,1\n0,1e4,0\n0,-1e4,1\n", "add_or_remove_one");
    const auto without = parameters_for("1e4,0,1\n0,1e4,0\n", "add_or_remove_one");
    CHECK(distance(with, without) <= bound * (1 + 1e-6));
    CHECK(distance(with, without) >= bound * 0.999);
  }
  SECTION("one example replaced by its opposite") {
    const auto one = parameters_for("1e4,0,1\n0,1e4,0\n0,-1e4,1\n", "replace_one");
    const auto other = parameters_for("1e4,0,1\n0,1e4,0\n0,-1e4,0\n", "replace_one");
    CHECK(distance(one, other) <= 2 * bound * (1 + 1e-6));
    CHECK(distance(one, other) >= 2 * bound * 0.999);
  }
}

TEST_CASE("choosing rows is listed where one example decides about another", "[plan][privacy]") {
  // Four 1 x 1 images of the classes 0, 1, 0, 1 in the IDX format.
  const auto unaccounted_of = [](const std::string& choice, const std::string& adjacency) {
    Experiment experiment(R"(privgrad: 1
data: {kind: idx, train: {images: images, labels: labels}, classes: 2, size: 2, )" +
                          choice + R"(}
model: {kind: linear}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 5.0, clip_norm: 1, learning_rate: 0.1}
privacy: {target_delta: 1e-5, accountant: zcdp, adjacency: )" +
                          adjacency + "}\nsteps: 1\n");
    using namespace std::string_literals;
    write_file(experiment.dir() / "images", "\0\0\x08\x03\0\0\0\x04\0\0\0\x01\0\0\0\x01\1\2\3\4"s);
    write_file(experiment.dir() / "labels", "\0\0\x08\x01\0\0\0\x04\0\1\0\1"s);
    std::set<std::string> names;
    for (const auto& item : experiment.plan().unaccounted) names.insert(item.what);
    names.erase("training metrics");
    return names;
  };
  using Names = std::set<std::string>;
  CHECK(unaccounted_of("limit: 2, target_fill: 0", "add_or_remove_one") ==
        Names{"choice of the first examples"});
  CHECK(unaccounted_of("limit: 2, target_fill: 0", "replace_one").empty());
  CHECK(unaccounted_of("limit: 2, target_fill: 0", "zero_out").empty());
  CHECK(unaccounted_of("sample: {rows: 2, seed: 1}, target_fill: 0", "add_or_remove_one") ==
        Names{"choice of the sampled examples"});
  CHECK(unaccounted_of("sample: {rows: 2, seed: 1}, target_fill: 0", "replace_one").empty());
  CHECK(unaccounted_of("sample: {rows: 2, seed: 1}, target_fill: 0", "zero_out").empty());
  CHECK(unaccounted_of("keep_labels: [1, 0], limit: 2", "replace_one") ==
        Names{"number of examples that are chosen by what they hold"});
  CHECK(unaccounted_of("keep_labels: [1, 0], limit: 2", "zero_out").empty());
}

TEST_CASE("noise: off obeys arithmetic: float: clipped gradients are added as they are", "[run]") {
  // One step of gradient descent from zeros on every row, with a learning rate that makes the new
  // parameters minus the sum of the clipped gradients. Each gradient is -y (x, 1) times a constant,
  // and longer than the clip norm. Exact arithmetic uses factors of some 13 bits.
  constexpr double kClip = 1e-6;
  const auto relative_error = [&](const char* arithmetic) {
    Experiment experiment(R"(privgrad: 1
data: {kind: synthetic, rows: 50, test_rows: 0, dimensions: 6, target: linear, seed: 3}
model: linear
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: 1, clip_norm: 1e-6, learning_rate: 50}
privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: gdp, noise: off}
steps: 1
seed: 1
)",
                          {std::string("aggregator.arithmetic=") + arithmetic});
    const Dataset rows =
        core::read_data(*experiment.plan().manifest, *experiment.plan().setting).train;
    std::vector<double> expected(7);
    std::vector<float> x(6), y(1);
    for (std::uint32_t row = 0; row < rows.rows(); ++row) {
      rows.gather(std::span(&row, 1), x, y);
      double squares = 1.0;
      for (const float value : x) squares += static_cast<double>(value) * value;
      const double scale = (y[0] < 0.0F ? -kClip : kClip) / std::sqrt(squares);
      for (std::size_t j = 0; j < 6; ++j) expected[j] += scale * x[j];
      expected[6] += scale;
    }
    experiment.run();
    const std::vector<float> found = experiment.parameters();
    REQUIRE(found.size() == expected.size());
    double off = 0.0, all = 0.0;
    for (std::size_t j = 0; j < found.size(); ++j) {
      off += std::pow(found[j] - expected[j], 2.0);
      all += std::pow(expected[j], 2.0);
    }
    return std::sqrt(off / all);
  };
  CHECK(relative_error("float") < 1e-6);
  CHECK(relative_error("exact") > 1e-5);  // the control: different arithmetic differs
  CHECK(relative_error("exact") < 2e-3);
}
