// Accuracies on private rows that are released between steps, and runs that they end: the charges,
// their order, the statements, and how verification treats forgeries.
#include <atomic>
#include <cmath>
#include <optional>

#include "privgrad/trust/data_account.hpp"
#include "privgrad/trust/event_json.hpp"
#include "verify.hpp"

using namespace privgrad;
using verify::problems_of;

namespace {

using Json = nlohmann::json;

constexpr const char* kReports = R"(privgrad: 1
name: reports
data: {kind: synthetic, rows: 200, size: 200, test_rows: 40, dimensions: 5, test_is_public: true}
model: {kind: linear}
sampler: {kind: poisson, batch_size: 40}
optimizer: {kind: sgd}
schedules: {noise_multiplier: {kind: uniform}, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
steps: 20
)";

const std::string kEvery = "report={train_accuracy: {share: 0.1, every: 6}}";

/// The model does not change, so only noise can make a later accuracy better: with this seed the
/// first accuracy is better than the second.
const Overrides kStops{"seed=4", "schedules.learning_rate=1e-9",
                       "report={train_accuracy: {share: 0.1, every: 3, patience: 1}}"};

std::vector<std::string> order_of(const core::LedgerContents& ledger) {
  std::vector<std::string> order;
  for (const auto& release : ledger.releases) {
    const std::string what = release.what.empty() ? "step " : release.what + " ";
    order.push_back(what + std::to_string(release.step));
  }
  return order;
}

const Json& reported(const Json& document) { return document.at("reported").at("train_accuracy"); }

/// Replaces the lines of the ledger, chains them again, and binds it to a new summary.
void forge(const Experiment& experiment, std::vector<Json> lines, const std::string& summary) {
  write_file(experiment.run_dir() / "summary.json", summary);
  lines.back()["files"]["summary.json"] = core::sha256_hex(summary);
  verify::write_chain(experiment.run_dir() / "ledger.jsonl", lines);
}

}  // namespace

TEST_CASE("reports between the steps are charged where they are made, before the next step",
          "[statistics]") {
  Experiment experiment(kReports, {kEvery});
  const core::Plan& plan = experiment.plan();
  const core::RunResult result = experiment.run();
  CHECK(result.status == core::RunStatus::completed);
  CHECK(result.paid.charged == 20);
  CHECK(result.summary.at("accounted_event").is_null());  // the lines of the ledger give the event
  const core::LedgerContents ledger = experiment.ledger();
  std::vector<std::string> expected;
  for (int step = 0; step < 20; ++step) {
    if (step > 0 && step % 6 == 0)
      expected.push_back("accuracy on the training rows so far " + std::to_string(step));
    expected.push_back("step " + std::to_string(step));
  }
  expected.emplace_back("accuracy on the training rows 0");
  CHECK(order_of(ledger) == expected);
  for (const auto& release : ledger.releases) {
    if (release.what.empty()) continue;
    CHECK(release.event == core::to_json(Event::gaussian(plan.report->noise_multiplier)));
  }
  CHECK(result.epsilon.value <= 3.0);
  CHECK(result.epsilon.value > 3.0 - 1e-6);
  CHECK(problems_of(experiment) == "");
  CHECK(reported(result.summary).at("between").at("step") == Json({6, 12, 18}));
  CHECK(reported(result.summary).contains("value"));
  CHECK(reported(result.statement).at("every") == 6);
  CHECK_THAT(result.statement.at("prose").dump(),
             ContainsSubstring("20 steps and of the reported accuracies"));
  // Each of them is shown as soon as it is released.
  std::vector<double> shown;
  for (const Json& line : verify::json_lines(experiment.run_dir() / "metrics.jsonl"))
    if (line.contains("reported_accuracy")) shown.push_back(line.at("reported_accuracy"));
  CHECK(Json(shown) == reported(result.summary).at("between").at("value"));
}

TEST_CASE("a share is that of all reports together", "[statistics]") {
  // Under zcdp a Gaussian with noise multiplier z costs 1 / (2 z^2): four of them cost as much as
  // one with half the noise.
  const Overrides zcdp{"sampler=full_batch",
                       "privacy.accountant={kind: zcdp, conversion: classic}"};
  const auto with = [&](const std::string& report) {
    Overrides all = zcdp;
    all.push_back("report={train_accuracy: {share: 0.1" + report + "}}");
    return all;
  };
  Experiment once(kReports, with("")), often(kReports, with(", every: 6"));
  CHECK_THAT(often.plan().report->noise_multiplier,
             WithinRel(2.0 * once.plan().report->noise_multiplier, 1e-12));
  // Training has the same budget; the searches end within 1e-9 of the target.
  CHECK_THAT(often.plan().noise_multiplier.front(),
             WithinRel(once.plan().noise_multiplier.front(), 1e-6));
}

TEST_CASE("reports are of the model as it is, with noise of their own each", "[statistics]") {
  // Without noise each value is the accuracy that the run measures at that step.
  Experiment exact(kReports, {"privacy.noise=off", "evaluate_every=6",
                              "report={train_accuracy: {noise_multiplier: 3, every: 6}}"});
  exact.run();
  int seen = 0;
  for (const Json& line : verify::json_lines(exact.run_dir() / "metrics.jsonl")) {
    if (!line.contains("reported_accuracy")) continue;
    ++seen;
    CHECK_THAT(line.at("reported_accuracy").get<double>(),
               WithinAbs(line.at("train_accuracy").get<double>(), 1e-6));
  }
  CHECK(seen == 3);
  // The model does not change: all differences are noise. In a seeded run, all noise comes from one
  // key.
  Experiment still(kReports, {"seed=4", "schedules.learning_rate=1e-9", "steps=60",
                              "privacy.target_epsilon=50", "privacy.target_epsilon=50",
                              "report={train_accuracy: {noise_multiplier: 20, every: 1}}"});
  const core::RunResult result = still.run();
  const auto values = reported(result.summary).at("between").at("value").get<std::vector<double>>();
  REQUIRE(values.size() == 59);
  const double accuracy = result.metrics.train_accuracy.value();
  const double noise = 0.5 * 20.0 / 200.0;
  double squares = 0.0;
  for (const double value : values) squares += (value - accuracy) * (value - accuracy);
  // 59 independent Gaussians: chi^2 is outside these bounds with a probability below 1e-4; clamping
  // to [0, 1] could only make it smaller. Equal noise would make it 59 times a single square.
  CHECK(squares / (noise * noise) > 24.0);
  CHECK(squares / (noise * noise) < 110.0);
}

TEST_CASE("reports leave the budget what they take, however few steps it pays for",
          "[statistics]") {
  Experiment experiment(kReports, {"schedules.noise_multiplier=2", "steps=400",
                                   "report={train_accuracy: {noise_multiplier: 30, every: 5}}"});
  const std::uint64_t affordable = experiment.plan().affordable_steps;
  REQUIRE(affordable < 400);
  const core::RunResult result = experiment.run();
  CHECK(result.status == core::RunStatus::budget_exhausted);
  CHECK(result.steps == affordable);
  CHECK(experiment.ledger().releases.size() == affordable + (affordable - 1) / 5 + 1);
  CHECK(result.epsilon.value <= 3.0);
  CHECK(problems_of(experiment) == "");
}

TEST_CASE("a run ends when its last reports were no better than one before them",
          "[statistics][privacy]") {
  const auto ends = [](const std::vector<double>& values, std::uint64_t patience) {
    core::PlannedReport report;
    report.patience = patience;
    return report.ends_run(values);
  };
  CHECK_FALSE(ends({}, 1));
  CHECK_FALSE(ends({0.5}, 1));
  CHECK(ends({0.5, 0.5}, 1));  // not better
  CHECK_FALSE(ends({0.5, 0.6}, 1));
  CHECK_FALSE(ends({0.6, 0.5}, 2));
  CHECK(ends({0.6, 0.5, 0.55}, 2));
  CHECK_FALSE(ends({0.6, 0.5, 0.7}, 2));
  CHECK_FALSE(ends({0.9, 0.1, 0.1}, 0));

  Experiment experiment(kReports, kStops);
  const core::Plan& plan = experiment.plan();
  const core::RunResult result = experiment.run();
  REQUIRE(result.status == core::RunStatus::stopped_early);
  const auto values = reported(result.summary).at("between").at("value").get<std::vector<double>>();
  CHECK(result.steps == 3 * values.size());
  CHECK(result.steps < 20);
  CHECK(ends(values, 1));
  CHECK_FALSE(ends({values.begin(), values.end() - 1}, 1));

  // The charges are for the steps and reports that were made; the stated epsilon is the cost of the
  // whole plan, because releases decided when to stop.
  const core::LedgerContents ledger = experiment.ledger();
  CHECK(ledger.releases.size() == result.steps + values.size() + 1);
  CHECK(ledger.status == "stopped_early");
  CHECK(result.paid.charged == result.steps);
  CHECK(result.paid.accounted == 20);
  CHECK(result.epsilon.value == plan.epsilon().value);
  CHECK(result.epsilon.value > ledger.releases.back().epsilon);
  CHECK(result.epsilon.bound == BoundKind::upper);
  CHECK_FALSE(result.epsilon.lower.has_value());
  CHECK(result.statement.at("charged_steps") == result.steps);
  CHECK(result.statement.at("accounted_steps") == 20);
  CHECK(result.statement.at("epsilon") == plan.epsilon().value);
  CHECK_THAT(result.statement.at("prose").dump(), ContainsSubstring("releases decided"));
  CHECK(problems_of(experiment) == "");
  CHECK(verify::check(experiment.run_dir()).epsilon == plan.epsilon().value);

  // For composition with other runs, the event is the whole plan's, and a forged event is
  // refused.
  CHECK(result.summary.at("accounted_event") == core::to_json(plan.event));
  const std::vector<Json> lines = verify::json_lines(experiment.run_dir() / "ledger.jsonl");
  Json forged = result.summary;
  forged["accounted_event"] = nullptr;
  forge(experiment, lines, forged.dump(2) + "\n");
  CHECK_THAT(problems_of(experiment),
             ContainsSubstring("summary.json: has another 'accounted_event' than"));
}

TEST_CASE("a run that its reports have ended was not ended by its user", "[statistics][privacy]") {
  Experiment whole(kReports, kStops);
  const std::uint64_t last = whole.run().steps;
  Experiment experiment(kReports, kStops);
  std::atomic<bool> stop = false;
  const auto result =
      core::run(experiment.plan(), {.directory = experiment.run_dir(),
                                    .lock = "",
                                    .threads = 1,
                                    .on_progress = [&](const auto& at) { stop = at.step == last; },
                                    .stop = &stop});
  CHECK(stop);
  CHECK(result.status == core::RunStatus::stopped_early);
  CHECK(problems_of(experiment) == "");
}

TEST_CASE("a run that could have been ended by its reports states the same if it was not",
          "[statistics][privacy]") {
  Experiment experiment(kReports, {"report={train_accuracy: {share: 0.1, every: 6, patience: 3}}"});
  const core::RunResult result = experiment.run();
  CHECK(result.status == core::RunStatus::completed);  // three reports are too few by one
  CHECK(result.epsilon.value == experiment.plan().epsilon().value);
  CHECK(result.epsilon.bound == BoundKind::upper);
  CHECK(result.summary.at("accounted_event") == core::to_json(experiment.plan().event));
  CHECK(problems_of(experiment) == "");
}

TEST_CASE("verification finds a report that is missing, and an end that none led to",
          "[statistics][privacy]") {
  Experiment experiment(kReports, kStops);
  const core::RunResult result = experiment.run();
  REQUIRE(result.status == core::RunStatus::stopped_early);
  const std::vector<Json> lines = verify::json_lines(experiment.run_dir() / "ledger.jsonl");
  const std::string summary = read_file(experiment.run_dir() / "summary.json");
  forge(experiment, lines, summary);
  REQUIRE(problems_of(experiment) == "");

  std::vector<Json> fewer = lines;
  fewer.erase(fewer.begin() + 4);  // the first report, after the opening line and three steps
  forge(experiment, fewer, summary);
  CHECK_THAT(problems_of(experiment), ContainsSubstring("is a release that is not planned"));

  std::vector<Json> none = lines;
  std::erase_if(none, [](const Json& line) {
    return line.value("what", "") == "accuracy on the training rows so far";
  });
  forge(experiment, none, summary);
  CHECK_THAT(problems_of(experiment), ContainsSubstring("is a release that is not planned"));

  std::vector<Json> later = lines;
  std::swap(later[4], later[5]);  // a step comes before the report that could have ended the run
  forge(experiment, later, summary);
  CHECK_THAT(problems_of(experiment), ContainsSubstring("is a release that is not planned"));

  std::vector<Json> more = lines;
  more.insert(more.end() - 1, more[more.size() - 2]);  // the report of the final model, twice
  forge(experiment, more, summary);
  CHECK_THAT(problems_of(experiment), ContainsSubstring("is a release that is not planned"));

  // Accuracies that always improve do not end a run.
  Json other = Json::parse(summary);
  Json& values = other.at("reported").at("train_accuracy").at("between").at("value");
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.1 + 0.01 * static_cast<double>(i);
  forge(experiment, lines, other.dump(2) + "\n");
  CHECK_THAT(problems_of(experiment), ContainsSubstring("do not explain where the run ended"));
}

TEST_CASE("an account gets back what a run that ended early was not charged for",
          "[statistics][privacy]") {
  Overrides set = kStops;
  set.insert(set.end(),
             {"privacy.account=rows.account", "privacy.adjacency=zero_out", "sampler=full_batch",
              "privacy.accountant=zcdp", "mode=release", "seed=null"});
  // An account accepts no seeds, so this depends on chance: six accuracies of the same model
  // increase with a probability of 1 in 720.
  std::optional<Experiment> made;
  std::optional<core::RunResult> ended;
  for (int tries = 0; !ended || ended->status != core::RunStatus::stopped_early; ++tries) {
    REQUIRE(tries < 8);
    made.emplace(kReports, set);
    core::DataAccount::open(made->dir() / "rows.account", {.name = "rows",
                                                           .adjacency = Adjacency::zero_out,
                                                           .target_epsilon = 3.5,
                                                           .target_delta = 1e-5,
                                                           .accountant = "zcdp"});
    ended = made->run();
  }
  Experiment& experiment = *made;
  const core::RunResult& result = *ended;
  const auto file = experiment.dir() / "rows.account";
  const core::DataAccount account(file);
  REQUIRE(account.entries().size() == 1);
  REQUIRE(account.entries().front().settled.has_value());
  // The total rho of the releases: 1 / (2 z^2) for each.
  const core::Plan& plan = experiment.plan();
  const double z = plan.noise_multiplier.front(), r = plan.report->noise_multiplier;
  const auto steps = static_cast<double>(result.steps);
  const double rho = steps / (2.0 * z * z) + (steps / 3.0 + 1.0) / (2.0 * r * r);
  const auto filter = house().create<Accountant>("zcdp", {});
  filter->start(Adjacency::zero_out);
  filter->compose(Event::zcdp(rho), 1);
  CHECK_THAT(account.spent(*filter).value, WithinRel(filter->epsilon(1e-5).value, 1e-6));
}

TEST_CASE("what reports between the steps do not go together with is refused by name",
          "[statistics]") {
  const auto refused = [](const Overrides& set, const std::string& why) {
    Experiment experiment(kReports, set);
    CHECK_THROWS_WITH(experiment.plan(), ContainsSubstring(why));
  };
  refused({"report={train_accuracy: {share: 0.1, patience: 2}}"},
          "report.train_accuracy.patience: counts releases between the steps");
  refused({"report={train_accuracy: {share: 0.1, every: 0}}"}, "report.train_accuracy.every");
  refused({"report={train_accuracy: {share: 0.1, every: 3, patience: 2}}", "output=random_iterate"},
          "draws one of all steps");
}
