#include "privgrad/train/accuracy_report.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "counted_manifest.hpp"
#include "fake_program.hpp"
#include "held_model.hpp"
#include "privgrad/trust/ledger_reader.hpp"

using namespace privgrad;
using core::Charge;
using core::PlannedReport;

namespace {

/// A program that classifies a row correctly if its feature equals its target.
class Comparing final : public Program {
 public:
  std::size_t parameter_count() const override { return 1; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch&, std::span<float>) const override {}
  Evaluation evaluate(const Batch& batch) const override {
    Evaluation sum;
    for (std::size_t i = 0; i < batch.rows(); ++i)
      sum.correct += batch.features[i] == batch.targets[i] ? 1 : 0;
    return sum;
  }
};

/// A plan with a report, whose ledger pays for three releases with noise 1.
struct Reporting {
  core::Manifest manifest = counted();
  core::Plan plan;
  TempDir dir;
  CountingAccountant accountant;
  core::Ledger ledger{dir.path() / "ledger.jsonl",
                      {.target_epsilon = 3.0, .target_delta = 1e-5},
                      accountant,
                      "counting",
                      {}};
  std::size_t lines_when_looked = 0;
  int looked = 0;

  explicit Reporting(double noise = 1.0) {
    plan.manifest = &manifest;
    plan.report = PlannedReport{.noise_multiplier = noise, .every = 2};
  }
  /// Releases the report about rows of which three quarters are classified correctly.
  std::optional<core::ReportedAccuracy> release(const Charge& charge, core::Ledger* paid_by) {
    const auto halves = [&] {
      ++looked;
      lines_when_looked = core::read_ledger(dir.path() / "ledger.jsonl").releases.size();
      return std::vector<float>{0.5f, 0.5f, 0.5f, -0.5f};
    };
    return core::release_accuracy(plan, charge, 4.0, halves, {}, core::RandomKey::from_seed(1),
                                  paid_by, nullptr, serial);
  }
};

}  // namespace

TEST_CASE("a row adds a half to the report if it is classified correctly, or takes one off",
          "[report][privacy]") {
  const Dataset data({{1}, 2}, {0.0f, 0.0f, 1.0f}, {0.0f, 1.0f, 1.0f});
  const std::vector<std::uint32_t> rows{0, 1, 2};
  CHECK(core::correct_halves(Comparing(), data, rows, serial) ==
        std::vector<float>{0.5f, -0.5f, 0.5f});
}

TEST_CASE("a report is paid for before a row is looked at", "[report][privacy]") {
  Reporting run;
  const auto made = run.release(run.plan.report->charge_behind(2), &run.ledger);
  REQUIRE(made);
  CHECK(run.lines_when_looked == 1);
  const auto lines = core::read_ledger(run.dir.path() / "ledger.jsonl");
  CHECK(lines.releases.front().what == "accuracy on the training rows so far");
  CHECK(lines.releases.front().step == 2);
  // The noise of the mean over four rows, whose bound is 1/2: 1/2 times 1, over 4.
  CHECK_THAT(made->noise_stddev, WithinRel(0.125, 1e-6));
}

TEST_CASE("a report that the budget does not pay for looks at no row", "[report][privacy]") {
  Reporting run;
  REQUIRE(run.ledger.charge(full_steps(3, 1.0)).size() == 3);
  CHECK_FALSE(run.release(run.plan.report->charge(), &run.ledger));
  CHECK(run.looked == 0);
}

TEST_CASE("each report has its own noise, and the same one when it is repeated",
          "[report][privacy]") {
  const auto value = [](std::uint64_t steps) {
    Reporting run;
    return run.release(run.plan.report->charge_behind(steps), &run.ledger)->value;
  };
  CHECK(value(2) == value(2));
  CHECK(value(2) != value(4));
}

TEST_CASE("without noise the accuracy is released as it is", "[report]") {
  Reporting run(0.0);
  const auto made = run.release(run.plan.report->charge(), nullptr);
  REQUIRE(made);
  CHECK(made->value == 0.75);
  CHECK(made->noise_stddev == 0.0);
}

namespace {

/// The reports of a run of six affordable steps, each with the next of these accuracies.
struct Reports {
  core::Plan plan;
  std::vector<double> accuracies;
  std::vector<Charge> charges;
  HeldModel model{{0.0f}};

  Reports(PlannedReport planned, std::vector<double> values) : accuracies(std::move(values)) {
    plan.report = planned;
    plan.affordable_steps = 6;
  }
  core::AccuracyReports made() {
    return {plan, [&](const Charge& charge) -> std::optional<core::ReportedAccuracy> {
              if (charges.size() == accuracies.size()) return std::nullopt;
              charges.push_back(charge);
              return core::ReportedAccuracy{accuracies[charges.size() - 1], 0.125};
            }};
  }
};

}  // namespace

TEST_CASE("reports are released when they are due, and recorded with their noise", "[report]") {
  Reports run({.noise_multiplier = 2.0, .share = 0.5, .every = 2}, {0.5, 0.75});
  core::AccuracyReports reports = run.made();
  core::Summary summary;
  reports.add_to_summary(summary);
  CHECK_FALSE(summary.reported->train_accuracy->value);

  CHECK_FALSE(reports.after_step(1, run.model));
  CHECK(reports.after_step(2, run.model));
  core::MetricsLine line;
  reports.add_to_metrics(line, 2, run.model);
  CHECK(line.reported_accuracy == 0.5);
  core::MetricsLine later;
  reports.add_to_metrics(later, 3, run.model);
  CHECK_FALSE(later.reported_accuracy);
  reports.model_is_final(run.model);
  CHECK(reports.made() == 2);
  CHECK(run.charges ==
        std::vector<Charge>{run.plan.report->charge_behind(2), run.plan.report->charge()});
  reports.add_to_summary(summary);
  const core::AccuracySummary& facts = *summary.reported->train_accuracy;
  CHECK(facts.value == 0.75);
  CHECK(facts.share.value() == 0.5);
  CHECK(facts.between->step == std::vector<core::Count>{2});
}

TEST_CASE("reports that no longer get better end the run, also when it is taken up", "[report]") {
  Reports run({.noise_multiplier = 2.0, .share = 0.5, .every = 1, .patience = 2}, {0.5, 0.5, 0.5});
  core::AccuracyReports reports = run.made();
  for (std::uint64_t step = 0; step < 3; ++step) {
    CHECK(reports.ends_run() == std::nullopt);
    reports.after_step(step + 1, run.model);
  }
  core::StateWriter out;
  reports.save(out);
  core::AccuracyReports again = run.made();
  core::StateReader in(out.text(), "state");
  again.restore(in);
  in.end();
  for (core::AccuracyReports* one : {&reports, &again})
    CHECK(one->ends_run() == core::RunStatus::stopped_early);
}

TEST_CASE("no step spends the budget of the last report", "[report]") {
  Reports run({.noise_multiplier = 2.0, .share = 0.5, .every = 0}, {});
  core::AccuracyReports reports = run.made();
  CHECK(reports.before_step(5, run.model) == std::nullopt);
  CHECK(reports.before_step(6, run.model) == core::RunStatus::budget_exhausted);
}
