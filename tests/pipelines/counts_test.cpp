// Counts of the private rows, which are released first: the number of rows, by which later means
// are divided, and the number of rows of each class.
#include <cmath>

#include "privgrad/bounded_statistic.hpp"
#include "privgrad/model/model_file.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/trust/event_json.hpp"
#include "test_components.hpp"
#include "verify.hpp"

using namespace privgrad;
using verify::problems_of;

namespace {

/// 200 rows, and a guess of 150.
constexpr const char* kCounted = R"(privgrad: 1
name: counts
mode: release
data:
  kind: synthetic
  rows: 200
  size: {about: 150, statistic: private, noise_multiplier: 8}
  test_rows: 40
  dimensions: 5
  test_is_public: true
model: {kind: linear}
sampler: {kind: poisson, batch_size: 30}
optimizer: {kind: sgd}
schedules: {noise_multiplier: {kind: uniform}, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
steps: 20
)";

using Json = nlohmann::json;

const std::string kClasses = "report.class_counts.noise_multiplier=6";
const Overrides kBalanced{"model.class_weights=balanced",
                          "report.class_counts={noise_multiplier: 6, largest_weight: 5}"};
const std::string kStandardize =
    "data.transforms=[{kind: standardize, statistic: private, range: [-3, 3], share: 0.1}]";
/// Noise without a budget, for tests of something other than the budget.
const Overrides kOneStep{"mode=research", "steps=1", "evaluate_every=1",
                         "privacy.target_epsilon=null", "schedules.noise_multiplier=5"};

/// Adds 1 for each row, with almost no noise, and stores the mean that it receives.
class Ones final : public Transform, public BoundedStatistic {
 public:
  explicit Ones(const Params&) {}
  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  void fit(Dataset&) override { throw PluginError("ones: is not fitted"); }
  bool is_by_row() const override { return true; }
  bool is_restorable() const override { return true; }
  void apply_row(const Shape&, std::span<const float> in, std::span<float> out) const override {
    std::copy(in.begin(), in.end(), out.begin());
  }
  Statistic statistic() const override { return Statistic::released; }
  std::vector<FittedTensor> fitted_values() const override { return {{"mean", {1}, {mean_}}}; }
  void restore(const std::vector<FittedTensor>& values) override {
    mean_ = find_fitted(values, "ones", "mean", {1}).values.front();
  }
  std::optional<StatisticRequest> request(const ExampleShape&) const override {
    return StatisticRequest{"ones", 1, 1.0, {.multiplier = 1e-3}};
  }
  void contribution(const Shape&, std::span<const float>, std::span<float> out) const override {
    out[0] = 1.0f;
  }
  void learn(const ExampleShape&, const Released& mean) override { mean_ = mean.values().front(); }

 private:
  double mean_ = 0.0;
};

double mean_of_ones(const Experiment& experiment) {
  return core::read_model_file(experiment.run_dir() / "model.safetensors")
      .preprocessing.front()
      .fitted.values.front()
      .values.front();
}

}  // namespace

TEST_CASE("counts: released and charged before all other statistics, within the budget",
          "[statistics]") {
  Experiment experiment(kCounted, {kClasses, kStandardize});
  const core::Plan& plan = experiment.plan();
  CHECK(plan.unaccounted.empty());
  CHECK(plan.dataset_size == 150);
  REQUIRE(plan.statistics.size() == 3);
  CHECK(plan.statistics[0].of == core::StatisticOf::rows);
  CHECK(plan.statistics[1].of == core::StatisticOf::classes);
  for (std::size_t i = 0; i < 2; ++i) CHECK(plan.statistics[i].l2_bound == 1.0);
  const core::RunResult result = experiment.run();
  CHECK(result.status == core::RunStatus::completed);
  CHECK(result.paid.charged == 20);
  CHECK(result.epsilon.value <= 3.0);
  CHECK(result.epsilon.value > 3.0 - 1e-6);

  const core::LedgerContents ledger = experiment.ledger();
  REQUIRE(ledger.releases.size() == 23);
  const char* const what[] = {
      "statistic of data.size: number of training examples",
      "statistic of report.class_counts: number of training examples of each class",
      "statistic of standardize"};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK_THAT(ledger.releases[i].what, ContainsSubstring(what[i]));
    CHECK(ledger.releases[i].event ==
          core::to_json(Event::gaussian(plan.statistics[i].noise_multiplier)));
  }
  CHECK(ledger.releases[0].event == core::to_json(Event::gaussian(8.0)));
  CHECK(ledger.releases[1].event == core::to_json(Event::gaussian(6.0)));
  CHECK(problems_of(experiment) == "");

  // Six standard deviations and a rounding: a larger distance has a probability below 1e-8.
  const Json& reported = result.summary.at("reported");
  const double rows = reported.at("rows").at("value").get<double>();
  CHECK_THAT(rows, WithinAbs(200.0, 6.0 * 8.0 + 0.5));
  CHECK(reported.at("rows").at("noise_stddev") == 8.0);
  const auto classes = reported.at("class_counts").at("value").get<std::vector<double>>();
  REQUIRE(classes.size() == 2);
  CHECK_THAT(classes[0] + classes[1], WithinAbs(200.0, 6.0 * 6.0 * std::sqrt(2.0)));

  // The same values in the statement and with the model.
  const Json& stated = result.statement.at("statistics");
  CHECK(stated[0].at("transform").is_null());
  CHECK(stated[0].at("name") == "data.size");
  CHECK(stated[0].at("value") == reported.at("rows").at("value"));
  CHECK(stated[1].at("value") == reported.at("class_counts").at("value"));
  CHECK(stated[2].at("transform") == 0);
  CHECK(result.statement.at("dataset_size_is") == "guess");
  const std::string prose = result.statement.at("prose").dump();
  CHECK_THAT(prose, ContainsSubstring("a public guess of the number of training examples, 150"));
  CHECK_THAT(prose, ContainsSubstring(
                        "noise multiplier 8): " + std::to_string(*result.counts.rows) + ". Means"));
  CHECK_THAT(prose, ContainsSubstring("20 steps and of 3 statistics of the rows"));
  const auto model = core::read_model_file(experiment.run_dir() / "model.safetensors");
  CHECK(model.metadata.at("released_rows") == std::to_string(*result.counts.rows));
  CHECK(Json::parse(model.metadata.at("released_class_counts")) == classes);
}

TEST_CASE(
    "counts: later means are divided by the released number, not by the true one or the guess",
    "[statistics]") {
  const Catalog catalog = house_with({offer<Transform, Ones>("ones")});
  // The noise of seeds 1 to 3 is nonzero in at least one of them, with a probability above 0.9998.
  bool differs = false, is_noise_its_own = false;
  for (const char* seed : {"seed=1", "seed=2", "seed=3"}) {
    Experiment experiment(kCounted,
                          with(kOneStep, {seed, "data.transforms=[{kind: ones}]",
                                          "report.train_accuracy.noise_multiplier=4"}),
                          catalog);
    const core::RunResult result = experiment.run();
    const auto rows = static_cast<double>(result.counts.rows.value());
    differs = differs || rows != 200.0;
    // The count, rounded to a multiple of 1/16.
    const double of_rows = (rows - 200.0) / 8.0;
    const double of_ones = (mean_of_ones(experiment) * rows - 200.0) / 1e-3;
    is_noise_its_own = is_noise_its_own || std::abs(of_rows - of_ones) > 0.2;
    CHECK_THAT(mean_of_ones(experiment), WithinRel(200.0 / rows, 1e-4));
    CHECK_THAT(
        result.summary.at("/reported/train_accuracy/noise_stddev"_json_pointer).get<double>(),
        WithinRel(0.5 * 4.0 / rows, 1e-6));
  }
  CHECK(differs);
  CHECK(is_noise_its_own);
}

TEST_CASE("counts: their noise is of the size that was paid for", "[statistics]") {
  // 120 draws for the number of rows, and as many for two classes, rounded to whole numbers or not:
  // the sum of 120 squared normals is outside [60, 200] with a probability below 1e-6.
  double of_rows = 0.0, of_classes = 0.0, together = 0.0;
  Experiment exact(kCounted, with(kOneStep, {kClasses, "privacy.noise=off"}));
  const std::vector<double> classes = exact.run().counts.classes;
  REQUIRE(classes.size() == 2);
  CHECK_THAT(classes[0] + classes[1], WithinAbs(200.0, 1e-4));
  for (int seed = 1; seed <= 120; ++seed) {
    Experiment noised(kCounted, with(kOneStep, {kClasses, "seed=" + std::to_string(seed)}));
    const core::ReleasedCounts counts = noised.run().counts;
    const double noise = (static_cast<double>(counts.rows.value()) - 200.0) / 8.0;
    of_rows += noise * noise;
    together += noise * (counts.classes.at(0) - classes[0]) / 6.0;
    if (seed > 60) continue;
    for (std::size_t i = 0; i < 2; ++i)
      of_classes += std::pow((counts.classes.at(i) - classes[i]) / 6.0, 2);
  }
  CHECK(of_rows > 60.0);
  CHECK(of_rows < 200.0);
  CHECK(of_classes > 60.0);
  CHECK(of_classes < 200.0);
  // Each count has its own noise: the sum of 120 products has a standard deviation of 11, and would
  // be 120 for equal noise.
  CHECK(std::abs(together) < 60.0);
}

TEST_CASE("counts: without noise they are the true ones", "[statistics]") {
  const Catalog catalog = house_with({offer<Transform, Ones>("ones")});
  Experiment experiment(
      kCounted, {"mode=research", "privacy.noise=off", "data.transforms=[{kind: ones}]"}, catalog);
  CHECK(experiment.run().counts.rows == 200);
  CHECK_THAT(mean_of_ones(experiment), WithinAbs(1.0, 1e-6));
}

TEST_CASE("counts: a number of rows is whole and at least 1, whatever the noise made of it",
          "[statistics]") {
  CHECK(core::count_of_rows(-5.0f) == 1);
  CHECK(core::count_of_rows(0.4f) == 1);
  CHECK(core::count_of_rows(2.4f) == 2);
  CHECK(core::count_of_rows(60000.6f) == 60001);
  CHECK(core::count_of_rows(3e38f) == std::uint64_t{1} << 53);
}

TEST_CASE("counts: a share is of the squared length of one Gaussian that takes the budget",
          "[statistics]") {
  const Overrides zcdp{"sampler=full_batch",
                       "privacy.accountant={kind: zcdp, conversion: classic}"};
  Experiment alone(kCounted, with(zcdp, {"data.size=150"}));
  double rho = 0.0;
  for (const double z : alone.plan().noise_multiplier) rho += 1.0 / (2.0 * z * z);
  Experiment shared(kCounted, with(zcdp, {"data.size={about: 150, statistic: private, share: 0.04}",
                                          "report.class_counts.share=0.02"}));
  const double shares[] = {0.04, 0.02};
  for (std::size_t i = 0; i < 2; ++i) {
    const double z = shared.plan().statistics.at(i).noise_multiplier;
    CHECK_THAT(1.0 / (2.0 * z * z), WithinRel(shares[i] * rho, 1e-9));
  }
  double rest = 0.0;
  for (const double z : shared.plan().noise_multiplier) rest += 1.0 / (2.0 * z * z);
  CHECK_THAT(rest, WithinRel(0.94 * rho, 1e-6));
}

TEST_CASE("counts: exchanging an example costs class counts as two contributions", "[statistics]") {
  const Overrides one_release{"mode=research",
                              "data.size=200",
                              "sampler=full_batch",
                              "privacy.accountant=gdp",
                              "steps=1",
                              "privacy.target_epsilon=null",
                              "privacy.adjacency=zero_out"};
  Experiment zeroed(kCounted, with(one_release, {"report.class_counts.noise_multiplier=8",
                                                 "schedules.noise_multiplier=1000"}));
  Experiment exchanged(kCounted, with(one_release, {"report.class_counts.noise_multiplier=16",
                                                    "schedules.noise_multiplier=2000",
                                                    "privacy.adjacency=replace_one"}));
  CHECK_THAT(exchanged.plan().epsilon().value, WithinRel(zeroed.plan().epsilon().value, 1e-9));
  CHECK(exchanged.run().counts.classes.size() == 2);
  CHECK(problems_of(exchanged) == "");
}

TEST_CASE(
    "counts: balanced class weights follow from noised counts, whatever the noise made of them",
    "[statistics]") {
  Experiment experiment(kCounted, kBalanced);
  const auto weights = [&](std::vector<double> counts) {
    return core::class_weights_of(experiment.plan(),
                                  core::ReleasedCounts{{}, std::move(counts), {}});
  };
  // The mean count divided by the class's count: 200 / 300 and 200 / 100.
  CHECK(weights({300.0, 100.0}) == std::vector<double>{200.0 / 300.0, 2.0});
  // Counts are at least 1, and weights at most 5: 50 / 99, and 50 / 1.
  CHECK(weights({99.0, -40.0}) == std::vector<double>{50.0 / 99.0, 5.0});
  CHECK(weights({0.0, 1e-30}) == std::vector<double>{1.0, 1.0});
  CHECK(weights({1e300, -1e300})[1] == 5.0);
  CHECK(weights({1e300, -1e300})[0] > 0.0);
  CHECK(weights({}).empty());
  Experiment without(kCounted, {kClasses});
  CHECK(
      core::class_weights_of(without.plan(), core::ReleasedCounts{{}, {300.0, 100.0}, {}}).empty());
}

TEST_CASE("counts: a run with balanced weights is the run with these weights as numbers",
          "[statistics]") {
  const std::string differences = "aggregator={kind: tree_reduced, momentum: 0.9, smoothness: 10}";
  const bool has_anchors = GENERATE(false, true);
  Overrides common{"seed=5", "mode=research"};
  if (has_anchors) {
    common = with(common, {differences, "sampler={kind: shuffle, batch_size: 50, fresh: false}",
                           "data.size=200", "privacy.adjacency=zero_out", "privacy.accountant=gdp",
                           "optimizer=normalized_sgd", "schedules.learning_rate=0.02"});
  }
  Experiment balanced(kCounted, with(common, kBalanced));
  const core::RunResult result = balanced.run();
  CHECK(problems_of(balanced) == "");
  const std::vector<double> weights = core::class_weights_of(balanced.plan(), result.counts);
  REQUIRE(weights.size() == 2);
  CHECK(weights[0] != weights[1]);
  Experiment given(kCounted,
                   with(common, {kClasses, "model.class_weights=" + Json(weights).dump()}));
  given.run();
  Experiment plain(kCounted, with(common, {kClasses}));
  plain.run();
  const auto file_of = [](const Experiment& experiment) {
    return core::read_model_file(experiment.run_dir() / "model.safetensors");
  };
  CHECK(file_of(balanced).network.class_weights == weights);
  CHECK(file_of(balanced).parameters == file_of(given).parameters);
  CHECK(file_of(balanced).parameters != file_of(plain).parameters);
  CHECK(result.summary.at("/reported/class_counts/weights"_json_pointer) == weights);
  CHECK(result.statement.at("/statistics"_json_pointer).back().at("class_weights") == weights);
  CHECK_THAT(result.statement.at("prose").dump(),
             ContainsSubstring("which follows from these released counts and is at most 5: "));
}

TEST_CASE("counts: files that say other balanced weights are found", "[statistics]") {
  Experiment experiment(kCounted, kBalanced);
  experiment.run();
  const auto ledger = experiment.run_dir() / "ledger.jsonl";
  std::vector<Json> lines = verify::json_lines(ledger);
  const auto path = experiment.run_dir() / "summary.json";
  Json summary = Json::parse(read_file(path));
  summary["reported"]["class_counts"]["weights"] = {1.0, 1.0};
  write_file(path, summary.dump());
  lines.back()["files"]["summary.json"] = core::sha256_hex(summary.dump());
  verify::write_chain(ledger, lines);
  CHECK_THAT(problems_of(experiment),
             ContainsSubstring("has another 'reported.class_counts' than the plan"));
  // Other counts make other weights, which the model file does not contain.
  Json& value = summary["reported"]["class_counts"]["value"];
  value[0] = value[0].get<double>() + 30.0;
  write_file(path, summary.dump());
  lines.back()["files"]["summary.json"] = core::sha256_hex(summary.dump());
  verify::write_chain(ledger, lines);
  CHECK_THAT(problems_of(experiment), ContainsSubstring("its metadata has another 'network' than"));
}

TEST_CASE("counts: files that say other counts, or none, are found", "[statistics]") {
  Experiment experiment(kCounted, {kClasses});
  experiment.run();
  const auto ledger = experiment.run_dir() / "ledger.jsonl";
  const std::vector<Json> whole = verify::json_lines(ledger);
  const std::string summary = read_file(experiment.run_dir() / "summary.json");
  const auto problems_with = [&](const std::function<void(Json&)>& change) {
    Json forged = Json::parse(summary);
    change(forged.at("reported"));
    write_file(experiment.run_dir() / "summary.json", forged.dump());
    std::vector<Json> lines = whole;
    lines.back()["files"]["summary.json"] = core::sha256_hex(forged.dump());
    verify::write_chain(ledger, lines);
    return problems_of(experiment);
  };
  CHECK(problems_with([](Json&) {}) == "");
  CHECK_THAT(problems_with([](Json& all) { all["rows"]["value"] = 1000; }),
             ContainsSubstring("statement.json: has another 'prose' than") ||
                 ContainsSubstring("statement.json: has another 'statistics' than"));
  CHECK_THAT(problems_with([](Json& all) { all["rows"]["value"] = 1000; }),
             ContainsSubstring("its metadata has another 'released_rows' than"));
  CHECK_THAT(problems_with([](Json& all) { all["class_counts"]["value"][0] = 1; }),
             ContainsSubstring("its metadata has another 'released_class_counts' than"));
  CHECK_THAT(problems_with([](Json& all) { all.erase("rows"); }),
             ContainsSubstring("has no reported.rows.value"));
  CHECK_THAT(problems_with([](Json& all) { all["rows"]["value"] = 0; }),
             ContainsSubstring("that is not a number of rows"));
  CHECK_THAT(problems_with([](Json& all) { all["rows"]["value"] = "many"; }),
             ContainsSubstring("that is not a number of rows"));
  CHECK_THAT(problems_with([](Json& all) { all["class_counts"]["value"] = {1}; }),
             ContainsSubstring("that is not a number for each class"));
  CHECK_THAT(problems_with([](Json& all) { all["rows"]["noise_stddev"] = 1; }),
             ContainsSubstring("has another 'reported.rows' than the plan"));
  // A ledger without the charge for the number of rows, or with that charge after the first step.
  std::vector<Json> lines = whole;
  lines.erase(lines.begin() + 1);
  verify::write_chain(ledger, lines);
  CHECK_THAT(problems_of(experiment), ContainsSubstring("ledger.jsonl"));
  lines = whole;
  std::swap(lines[1], lines[3]);
  verify::write_chain(ledger, lines);
  CHECK_THAT(problems_of(experiment), ContainsSubstring("is a release that is not planned"));
}

TEST_CASE("counts: what they do not go together with is refused by name", "[statistics]") {
  const auto refused = [](const Overrides& set, const std::string& why) {
    Experiment experiment(kCounted, set);
    CHECK_THROWS_WITH(experiment.plan(), ContainsSubstring(why));
  };
  for (const std::string adjacency : {"zero_out", "replace_one"}) {
    refused({"privacy.adjacency=" + adjacency, "sampler=full_batch"},
            "data.size: is declared as a private statistic, but under " + adjacency +
                " the number of training examples is public");
  }
  refused({"data.size={about: 150, statistic: private}"},
          "data.size: takes share or noise_multiplier, neither is given");
  refused({"data.size={about: 150, statistic: private, share: 0.1, noise_multiplier: 3}"},
          "data.size: takes share or noise_multiplier, both are given");
  refused({"data.size={about: 0, statistic: private, share: 0.1}"}, "data.size.about: is 0");
  refused({"data.size={statistic: private, share: 0.1}"}, "data.size.about");
  refused({"data.size={about: 150, share: 0.1}"}, "data.size.statistic");
  refused({"data.size={about: 150, statistic: public, share: 0.1}"}, "data.size.statistic");
  refused({"data.size={abuot: 150, statistic: private, share: 0.1}"}, "did you mean 'about'?");
  refused(
      {"data.size={about: 150, statistic: private, share: 0.6}", "report.class_counts.share=0.5"},
      "data.size: the shares of statistics and reports add up to 1.1");
  refused({"data.size={about: 150, statistic: private, noise_multiplier: 0.2}"},
          "leaves nothing for training");
  refused({"privacy.target_epsilon=null", "schedules.noise_multiplier=3",
           "data.size={about: 150, statistic: private, share: 0.1}"},
          "data.size: asks for a share of the budget, but there is no budget");
  refused({"report={class_counts: {}}"},
          "report.class_counts: takes share or noise_multiplier, neither is given");
  const std::string balanced = "model.class_weights=balanced";
  refused({balanced},
          "model.class_weights: is balanced, which divides by private counts; release them with "
          "noise that the budget pays for: report: {class_counts:");
  refused({balanced, kClasses}, "report.class_counts.largest_weight: is missing");
  refused(
      {"report.class_counts={noise_multiplier: 6, largest_weight: 5}"},
      "report.class_counts.largest_weight: limits the weights of model.class_weights: balanced");
  refused({balanced, "report.class_counts={noise_multiplier: 6, largest_weight: 0.5}"},
          "report.class_counts.largest_weight: is 0.5");
  refused({"model.class_weights=blanced"},
          "model.class_weights: is 'blanced', expected a list with one number for each class, or "
          "balanced");
  refused(with(kBalanced, {"data.target=linear"}),
          "report.class_counts: needs classes, but the targets are reals");
  const std::string clients =
      "federated={clients: 4, rounds: 4, local_iterations: 3, partition: iid}";
  refused({"mode=research", clients}, "data.size: is one sum over all rows, which no client");
  refused({"mode=research", "data.size=200", kClasses, clients},
          "report.class_counts: is one sum over all rows, which no client");
  refused(with(kBalanced, {"mode=research", "data.size=200", clients}),
          "report.class_counts: is one sum over all rows, which no client");
  const Overrides checks{"sampler=full_batch", "privacy.accountant=zcdp",
                         "schedules.noise_multiplier={kind: descent_check, initial: 20, every: 3, "
                         "raise: 0.5, loss_bound: 2, check_noise_multiplier: 30}"};
  refused(checks, "data.size: is paid for before the first step, but");
  Experiment no_run(kCounted);
  const core::Plan& plan = no_run.plan();
  CHECK_THROWS_WITH(core::read_data(*plan.manifest, *plan.setting),
                    ContainsSubstring("data.size: is the number of rows, which a run releases"));
}
