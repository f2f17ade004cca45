// Transforms that learn from noised sums over private rows: the charges, the releases, the content
// of the model file, and the refusals.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "privgrad/bounded_statistic.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/model/model_file.hpp"
#include "privgrad/model/model_use.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/trust/data_account.hpp"
#include "privgrad/trust/event_json.hpp"
#include "test_components.hpp"
#include "verify.hpp"

using namespace privgrad;

namespace {

constexpr const char* kWithStatistics = R"(privgrad: 1
name: statistics
mode: release
data: {kind: synthetic, rows: 200, size: 200, test_rows: 40, dimensions: 5, test_is_public: true}
model: {kind: linear}
sampler: {kind: poisson, batch_size: 40}
optimizer: {kind: sgd}
schedules: {noise_multiplier: {kind: uniform}, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
steps: 20
)";

using Json = nlohmann::json;

const std::string kTwo =
    "data.transforms=[{kind: standardize, statistic: private, range: [-3, 3], share: 0.1}, "
    "{kind: standardize, statistic: private, range: [-3, 3], noise_multiplier: 30}]";

std::string one_with(const std::string& more) {
  return "data.transforms=[{kind: standardize, statistic: private, range: [-3, 3], " + more + "}]";
}

/// Returns an accountant's answer for the events of a ledger, composed one by one.
double epsilon_of(const Experiment& experiment, const core::ComponentUse& accountant,
                  Adjacency adjacency) {
  auto made = core::make_accountant(accountant);
  made->start(adjacency);
  for (const auto& release : experiment.ledger().releases)
    made->compose(core::event_from_json(release.event.dump(), "ledger"), 1);
  return made->epsilon(1e-5).value;
}

}  // namespace

TEST_CASE("statistics: released before the first step, charged, and within the budget",
          "[statistics]") {
  Experiment experiment(kWithStatistics, {kTwo});
  const core::Plan& plan = experiment.plan();
  CHECK(plan.unaccounted.empty());
  REQUIRE(plan.statistics.size() == 2);
  CHECK(plan.statistics[1].noise_multiplier == 30.0);
  const core::RunResult result = experiment.run();
  CHECK(result.status == core::RunStatus::completed);
  CHECK(result.paid.charged == 20);

  const core::LedgerContents ledger = experiment.ledger();
  REQUIRE(ledger.releases.size() == 22);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(ledger.releases[i].step == i);
    CHECK_THAT(ledger.releases[i].what, ContainsSubstring("statistic of standardize"));
    // Every row takes part: the whole Gaussian, without amplification.
    CHECK(ledger.releases[i].event ==
          core::to_json(Event::gaussian(plan.statistics[i].noise_multiplier)));
  }
  for (std::size_t i = 2; i < 22; ++i) CHECK(ledger.releases[i].what.empty());

  const double total =
      epsilon_of(experiment, plan.manifest->accountant, Adjacency::add_or_remove_one);
  CHECK(total == plan.epsilon().value);
  CHECK(total <= 3.0);
  CHECK(total > 3.0 - 1e-6);
  CHECK(verify::all_of(verify::check(experiment.run_dir()).problems) == "");
}

TEST_CASE("statistics: a share is of the squared length of one Gaussian that takes the budget",
          "[statistics]") {
  // Under zcdp the budget is a rho, and a Gaussian with noise multiplier z costs 1 / (2 z^2): a
  // share s costs s rho, and full-batch training costs the rest.
  const Overrides central{"sampler=full_batch",
                          "privacy.accountant={kind: zcdp, conversion: classic}"};
  Experiment alone(kWithStatistics, central);
  double rho = 0.0;
  for (const double z : alone.plan().noise_multiplier) rho += 1.0 / (2.0 * z * z);
  for (const double share : {0.01, 0.3, 0.9}) {
    Experiment shared(kWithStatistics, with(central, {one_with("share: " + format_number(share))}));
    const core::Plan& plan = shared.plan();
    const double z = plan.statistics.front().noise_multiplier;
    CHECK(1.0 / (2.0 * z * z) == Catch::Detail::Approx(share * rho).epsilon(1e-9));
    double rest = 0.0;
    for (const double noise : plan.noise_multiplier) rest += 1.0 / (2.0 * noise * noise);
    CHECK(rest == Catch::Detail::Approx((1.0 - share) * rho).epsilon(1e-6));
    CHECK(plan.epsilon().value <= 3.0);
  }
}

TEST_CASE("statistics: every accountant composes them, and training gets the noise for the rest",
          "[statistics]") {
  for (const char* accountant : {"zcdp", "rdp", "pld", "saddle_point"}) {
    INFO(accountant);
    const std::string named = "privacy.accountant=" + std::string(accountant);
    const std::string batch =
        std::string(accountant) == "zcdp" ? "sampler=full_batch" : "sampler.batch_size=40";
    Experiment alone(kWithStatistics, {named, batch}),
        shared(kWithStatistics, {named, batch, one_with("share: 0.2")});
    CHECK(shared.plan().epsilon().value <= 3.0);
    CHECK(shared.plan().epsilon().value > 2.99);
    CHECK(shared.plan().noise_multiplier.front() > 1.02 * alone.plan().noise_multiplier.front());
  }
}

TEST_CASE("statistics: without noise they are the clipped means", "[statistics]") {
  Experiment experiment(
      kWithStatistics,
      {"mode=research", "privacy.noise=off", "data.size=null",
       "data.transforms=[{kind: standardize, statistic: private, range: [-0.5, 1], "
       "noise_multiplier: 4}]"});
  experiment.run();
  const core::ModelFile model = core::read_model_file(experiment.run_dir() / "model.safetensors");
  core::RunData rows =
      core::read_rows(experiment.plan().manifest->data, *experiment.plan().setting);
  const auto features = rows.train.features();
  const std::size_t width = rows.train.row_size();
  REQUIRE(model.preprocessing.front().fitted.values.size() == 2);
  for (std::size_t j = 0; j < width; ++j) {
    double mean = 0.0, square = 0.0;
    for (std::size_t row = 0; row < 200; ++row) {
      const double x = std::clamp(static_cast<double>(features[row * width + j]), -0.5, 1.0);
      mean += x / 200.0;
      square += x * x / 200.0;
    }
    CHECK(model.preprocessing.front().fitted.values[0].values[j] ==
          Catch::Detail::Approx(mean).margin(1e-5));
    CHECK(model.preprocessing.front().fitted.values[1].values[j] ==
          Catch::Detail::Approx(std::sqrt(square - mean * mean)).margin(1e-4));
  }
}

TEST_CASE("statistics: their noise is of the size that was paid for", "[statistics]") {
  // The released mean of feature j is middle + half (sum t_j + z C zeta) / n. 60 seeds of 5
  // features: the sum of 300 squared normals is outside [200, 420] with a probability below 1e-5.
  double squares = 0.0;
  const auto mean_of = [](const Overrides& more) {
    Experiment experiment(
        kWithStatistics,
        with({"mode=research", "steps=1", "evaluate_every=1", one_with("noise_multiplier: 0.5"),
              "privacy.target_epsilon=null", "schedules.noise_multiplier=5"},
             more));
    experiment.run();
    return core::read_model_file(experiment.run_dir() / "model.safetensors")
        .preprocessing.front()
        .fitted.values[0]
        .values;
  };
  const std::vector<double> exact = mean_of({"privacy.noise=off"});
  const double sigma = 3.0 * 0.5 * std::sqrt(1.25 * 5.0) / 200.0;
  for (int seed = 1; seed <= 60; ++seed) {
    const std::vector<double> noised = mean_of({"seed=" + std::to_string(seed)});
    for (std::size_t j = 0; j < exact.size(); ++j)
      squares += std::pow((noised[j] - exact[j]) / sigma, 2);
  }
  CHECK(squares > 200.0);
  CHECK(squares < 420.0);
}

TEST_CASE("statistics: a row's contribution is clipped, whatever the transform says",
          "[statistics]") {
  /// Claims that a row adds at most 1, but adds a thousand.
  class Boasts final : public Transform, public BoundedStatistic {
   public:
    explicit Boasts(const Params&) {}
    ExampleShape output_shape(const ExampleShape& input) const override { return input; }
    void fit(Dataset&) override { throw PluginError("boasts: is not fitted"); }
    bool is_by_row() const override { return true; }
    bool is_restorable() const override { return true; }
    void apply_row(const Shape&, std::span<const float> in, std::span<float> out) const override {
      std::copy(in.begin(), in.end(), out.begin());
    }
    Statistic statistic() const override { return Statistic::released; }
    std::vector<FittedTensor> fitted_values() const override { return {{"mean", {1}, {mean_}}}; }
    void restore(const std::vector<FittedTensor>& values) override {
      mean_ = find_fitted(values, "boasts", "mean", {1}).values.front();
    }
    std::optional<StatisticRequest> request(const ExampleShape&) const override {
      return StatisticRequest{"a lie", 1, 1.0, {.multiplier = 1.0}};
    }
    void contribution(const Shape&, std::span<const float>, std::span<float> out) const override {
      out[0] = 1000.0f;
    }
    void learn(const ExampleShape&, const Released& mean) override {
      mean_ = mean.values().front();
    }

   private:
    double mean_ = 0.0;
  };
  const Catalog catalog = house_with({offer<Transform, Boasts>("boasts")});
  Experiment experiment(kWithStatistics,
                        {"mode=research", "privacy.noise=off", "data.transforms=[{kind: boasts}]"},
                        catalog);
  experiment.run();
  const auto model = core::read_model_file(experiment.run_dir() / "model.safetensors");
  CHECK(model.preprocessing.front().fitted.values.front().values.front() ==
        Catch::Detail::Approx(1.0).margin(1e-6));
}

TEST_CASE("statistics: what was learnt goes with the model and makes the same features",
          "[statistics]") {
  Experiment experiment(kWithStatistics, {kTwo});
  const core::RunResult result = experiment.run();
  const auto executor = core::make_executor(1);
  const core::TrainedModel model(core::read_model_file(experiment.run_dir() / "model.safetensors"),
                                 "model", house(), *executor);
  const core::RunData raw =
      core::read_rows(experiment.plan().manifest->data, *experiment.plan().setting);
  const core::Predictions predictions = model.predict(raw.test);
  const Json evaluated = core::evaluation_json(predictions, raw.test.targets(), {"0", "1"});
  REQUIRE(result.metrics.test_accuracy.has_value());
  CHECK(evaluated.at("accuracy").get<double>() == *result.metrics.test_accuracy);
}

TEST_CASE("statistics: plan and statement say what was released, with how much noise",
          "[statistics]") {
  Experiment experiment(kWithStatistics, {kTwo});
  const core::RunResult result = experiment.run();
  const Json plan = core::to_json(core::plan_facts(experiment.plan()));
  REQUIRE(plan.at("statistics").size() == 2);
  CHECK(plan.at("statistics")[0].at("share") == 0.1);
  CHECK(plan.at("statistics")[1].at("share").is_null());
  CHECK(result.statement.at("statistics") == plan.at("statistics"));
  CHECK(result.statement.at("statistics")[0].at("numbers") == 10);
  const std::string prose = result.statement.at("prose").dump();
  CHECK_THAT(prose, ContainsSubstring("20 steps and of 2 statistics of the rows"));
  CHECK_THAT(prose, ContainsSubstring("for a share of 0.1 of the budget"));
  CHECK_THAT(result.statement.at("mechanism").at("charged_as").get<std::string>(),
             ContainsSubstring("3 different releases"));
}

TEST_CASE("statistics: a ledger that hides one is found", "[statistics]") {
  Experiment experiment(kWithStatistics, {kTwo});
  experiment.run();
  const auto file = experiment.run_dir() / "ledger.jsonl";
  const std::vector<Json> whole = verify::json_lines(file);
  const auto problems_without = [&](std::size_t line) {
    std::vector<Json> lines = whole;
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(line));
    verify::write_chain(file, lines);
    return verify::all_of(verify::check(experiment.run_dir()).problems);
  };
  CHECK_THAT(problems_without(1), ContainsSubstring("ledger.jsonl"));
  CHECK_THAT(problems_without(2), ContainsSubstring("ledger.jsonl"));
  // Without both lines, the rest looks like the ledger of a run that releases no statistics.
  {
    std::vector<Json> lines = whole;
    lines.erase(lines.begin() + 1, lines.begin() + 3);
    verify::write_chain(file, lines);
    CHECK_THAT(verify::all_of(verify::check(experiment.run_dir()).problems),
               ContainsSubstring("is a release that is not planned"));
  }
  // The ledger claims more noise than was actually used.
  std::vector<Json> lines = whole;
  lines[1]["release"] = lines[1]["event"] = core::to_json(Event::gaussian(1000.0));
  verify::write_chain(file, lines);
  CHECK_THAT(verify::all_of(verify::check(experiment.run_dir()).problems),
             ContainsSubstring("is not the release that the plan charges for there"));
}

TEST_CASE("statistics: an account reserves them with the run, and settles what was charged",
          "[statistics]") {
  Experiment experiment(kWithStatistics,
                        {"privacy.account=rows.account", "privacy.adjacency=zero_out",
                         "privacy.accountant=zcdp", "sampler=full_batch", kTwo});
  const auto file = experiment.dir() / "rows.account";
  core::DataAccount::open(file, {.name = "rows",
                                 .adjacency = Adjacency::zero_out,
                                 .target_epsilon = 3.5,
                                 .target_delta = 1e-5,
                                 .accountant = "zcdp"});
  CHECK(experiment.run().status == core::RunStatus::completed);
  const core::DataAccount account(file);
  REQUIRE(account.entries().size() == 1);
  REQUIRE(account.entries().front().settled.has_value());
  CHECK(*account.entries().front().settled == experiment.plan().event);
  // The events of statistics and steps.
  const auto filter = house().create<Accountant>("zcdp", {});
  CHECK_THAT(account.spent(*filter).value, WithinAbs(3.0, 1e-6));
}

TEST_CASE("statistics: what they do not go together with is refused by name", "[statistics]") {
  const auto refused = [](const Overrides& set, const std::string& why) {
    Experiment experiment(kWithStatistics, set);
    CHECK_THROWS_WITH(experiment.plan(), ContainsSubstring(why));
  };
  refused({one_with("share: 0.1, noise_multiplier: 3")}, "both are given");
  refused({one_with("share: 1e-24")},
          "a share of 1e-24 of the budget needs a noise multiplier of ");
  refused({"data.transforms=[{kind: standardize, statistic: private, range: [0, 1]}]"},
          "neither is given");
  refused({"data.transforms=[{kind: standardize, statistic: private, share: 0.1}]"},
          "needs the public range");
  refused({"data.transforms=[{kind: standardize, share: 0.1}]"}, "is of a private statistic");
  refused({"data.transforms=[{kind: standardize, statistic: private, share: 0.1, range: [1, 1]}]"},
          "low below high");
  refused({"data.transforms=[{kind: standardize, statistic: private, share: 0.1, range: [0, 1, 0, "
           "1]}]"},
          "expected 2, or 2 for each of 5");
  refused({"privacy.target_epsilon=null", "schedules.noise_multiplier=3", one_with("share: 0.1")},
          "asks for a share of the budget, but there is no budget");
  refused({"data.transforms=[{kind: standardize, statistic: private, range: [-3, 3], share: 0.6}, "
           "{kind: standardize, statistic: private, range: [-3, 3], share: 0.5}]"},
          "add up to 1.1");
  refused({one_with("noise_multiplier: 0.2")}, "leaves nothing for training");
  refused({"data.size=null", kTwo}, "number of training examples");
  refused({"mode=research", "data.size=null",
           "federated={clients: 4, rounds: 4, local_iterations: 3, partition: iid}", kTwo},
          "which no client of a federated run holds");
  refused({"sampler=full_batch", "privacy.accountant=zcdp", "privacy.adjacency=zero_out",
           "schedules.noise_multiplier={kind: descent_check, initial: 20, every: 3, raise: 0.5, "
           "loss_bound: 2, check_noise_multiplier: 30}",
           kTwo},
          "chooses the noise during the run");
  Experiment no_run(kWithStatistics, {kTwo});
  const core::Plan& plan = no_run.plan();
  CHECK_THROWS_WITH(core::read_data(*plan.manifest, *plan.setting),
                    ContainsSubstring("which only a run can release and pay for"));
}

TEST_CASE("statistics: exchanging an example costs as two contributions", "[statistics]") {
  const Overrides one_release{"mode=research",
                              "sampler=full_batch",
                              "privacy.accountant=gdp",
                              "privacy.target_epsilon=null",
                              "schedules.noise_multiplier=1000",
                              "steps=1",
                              one_with("noise_multiplier: 8")};
  Experiment zeroed(kWithStatistics, with(one_release, {"privacy.adjacency=zero_out"}));
  Experiment exchanged(kWithStatistics, with(one_release, {"privacy.adjacency=replace_one",
                                                           "data.transforms.0.noise_multiplier=16",
                                                           "schedules.noise_multiplier=2000"}));
  CHECK(exchanged.plan().epsilon().value ==
        Catch::Detail::Approx(zeroed.plan().epsilon().value).epsilon(1e-9));
}

TEST_CASE("report: the accuracy on private rows is released once, and paid for behind the steps",
          "[statistics]") {
  const std::string report = "report={train_accuracy: {share: 0.05}}";
  Experiment experiment(kWithStatistics, {report}), alone(kWithStatistics);
  const core::Plan& plan = experiment.plan();
  CHECK(plan.unaccounted.empty());
  CHECK(plan.noise_multiplier.front() > alone.plan().noise_multiplier.front());
  const core::RunResult result = experiment.run();
  CHECK(result.status == core::RunStatus::completed);
  CHECK(result.paid.charged == 20);
  const core::LedgerContents ledger = experiment.ledger();
  REQUIRE(ledger.releases.size() == 21);
  CHECK(ledger.releases.back().what == "accuracy on the training rows");
  CHECK(ledger.releases.back().epsilon == result.epsilon.value);
  CHECK(result.epsilon.value <= 3.0);
  CHECK(result.epsilon.value > 3.0 - 1e-6);
  CHECK_FALSE(result.metrics.train_accuracy.has_value());
  CHECK(verify::all_of(verify::check(experiment.run_dir()).problems) == "");

  const auto executor = core::make_executor(1);
  const core::TrainedModel model(core::read_model_file(experiment.run_dir() / "model.safetensors"),
                                 "model", house(), *executor);
  const core::RunData raw =
      core::read_rows(experiment.plan().manifest->data, *experiment.plan().setting);
  const Json exact =
      core::evaluation_json(model.predict(raw.train), raw.train.targets(), {"0", "1"});
  const Json& released = result.summary.at("reported").at("train_accuracy");
  // Half a row over 200 rows, times the noise multiplier.
  const double noise = released.at("noise_stddev").get<double>();
  CHECK_THAT(noise, WithinRel(0.5 * plan.report->noise_multiplier / 200.0, 1e-6));
  // A larger distance has a probability below 1e-8.
  CHECK_THAT(released.at("value").get<double>(),
             WithinAbs(exact.at("accuracy").get<double>(), 6.0 * noise));
  CHECK(result.statement.at("reported").at("train_accuracy").at("share") == 0.05);
  CHECK_THAT(result.statement.at("prose").dump(),
             ContainsSubstring("20 steps and of the reported accuracy"));
}

TEST_CASE("report: without noise it is the accuracy", "[statistics]") {
  Experiment experiment(kWithStatistics, {"mode=research", "privacy.noise=off",
                                          "report={train_accuracy: {noise_multiplier: 3}}"});
  const core::RunResult result = experiment.run();
  CHECK_THAT(result.summary.at("reported").at("train_accuracy").at("value").get<double>(),
             WithinAbs(result.metrics.train_accuracy.value(), 1e-6));
}

TEST_CASE("report: steps leave it its part of a budget that ends before them", "[statistics]") {
  Experiment experiment(kWithStatistics, {"schedules.noise_multiplier=2", "steps=400",
                                          "report={train_accuracy: {noise_multiplier: 10}}"});
  const std::uint64_t affordable = experiment.plan().affordable_steps;
  REQUIRE(affordable < 400);
  const core::RunResult result = experiment.run();
  CHECK(result.status == core::RunStatus::budget_exhausted);
  CHECK(result.steps == affordable);
  CHECK(experiment.ledger().releases.size() == affordable + 1);
  CHECK(result.epsilon.value <= 3.0);
  CHECK(result.summary.at("reported").at("train_accuracy").contains("value"));
  CHECK(verify::all_of(verify::check(experiment.run_dir()).problems) == "");
}

TEST_CASE("report: what it does not go together with is refused by name", "[statistics]") {
  const auto refused = [](const Overrides& set, const std::string& why) {
    Experiment experiment(kWithStatistics, set);
    CHECK_THROWS_WITH(experiment.plan(), ContainsSubstring(why));
  };
  const std::string report = "report={train_accuracy: {share: 0.05}}";
  refused({"report={train_accuracy: {share: 0.05, noise_multiplier: 3}}"}, "both are given");
  refused({"report={train_accuracy: {}}"}, "neither is given");
  refused({"report={train_accuracy: {share: 1}}"}, "report.train_accuracy.share");
  refused({"report={train_loss: {share: 0.1}}"}, "train_loss: is unknown");
  refused({"mode=research", "data.size=null", report,
           "federated={clients: 4, rounds: 4, local_iterations: 3, partition: iid}"},
          "which no client of a federated run holds");
  refused({"report={train_accuracy: {share: 0.5}}", one_with("share: 0.5")}, "add up to 1");
}
