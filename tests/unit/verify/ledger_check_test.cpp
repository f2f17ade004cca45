#include "ledger_check.hpp"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "counted_manifest.hpp"
#include "privgrad/trust/event_json.hpp"

using namespace privgrad;
using core::Charge;
using core::NamedLedger;
using core::Plan;
using Json = nlohmann::json;

namespace {

/// A run of four steps with noise 2, which cost a quarter each; a statistic before them, which
/// costs 1; and reports of the accuracy after the second step and at the end, which cost a quarter
/// each. The cost is 2.5 of a budget of 3.
struct CheckedRun {
  core::Manifest manifest = counted();
  Plan plan;
  std::vector<Charge> paid;
  NamedLedger ledger{"ledger.jsonl", {}};
  Json facts{{"type", "open"}, {"target_delta", kCountedDelta}};
  std::vector<std::string> problems;

  CheckedRun() {
    plan.planned_steps = plan.affordable_steps = 4;
    plan.charges = full_steps(4, 2.0);
    plan.statistics = {{.of = core::StatisticOf::rows,
                        .name = "data.size",
                        .what = "rows",
                        .size = 1,
                        .l2_bound = 1.0,
                        .noise_multiplier = 1.0}};
    plan.report = core::PlannedReport{.noise_multiplier = 2.0, .every = 2};
    plan.beside = core::charges_of(plan.statistics);
    for (const Charge& one : plan.report->charges(4)) plan.beside.push_back(one);
    const std::vector<Charge>& steps = plan.charges;
    paid = {plan.beside[0], steps[0], steps[1], plan.beside[1], steps[2], steps[3], plan.beside[2]};
    ledger.contents.facts = facts;
  }

  /// Writes the lines of the ledger, and pays for each release separately.
  void write(const std::string& status, std::uint64_t steps_done) {
    double total = 0.0;
    ledger.contents.releases.clear();
    for (const Charge& one : paid) {
      const double noise = std::get<GaussianEvent>(one.cost.kind()).noise_multiplier;
      total += 1.0 / (noise * noise);
      ledger.contents.releases.push_back({.step = one.step,
                                          .event = core::to_json(one.cost),
                                          .epsilon = total,
                                          .what = one.what,
                                          .release = core::to_json(one.release),
                                          .delta = kCountedDelta,
                                          .bound = "upper"});
    }
    close(status, steps_done, total);
  }
  void close(const std::string& status, std::uint64_t steps_done, double total) {
    ledger.contents.status = status;
    ledger.contents.close = {{"steps_done", steps_done},
                             {"releases_charged", paid.size()},
                             {"epsilon", total},
                             {"delta", kCountedDelta}};
  }

  std::optional<core::LedgerAccount> check(bool with_plan = true) {
    core::LedgerChecker checker(problems);
    return checker.check(ledger, manifest, with_plan ? &plan : nullptr, facts);
  }
};

CheckedRun completed() {
  CheckedRun run;
  run.write("completed", 4);
  return run;
}

/// Returns the problem of the completed run after a change of its ledger's lines.
std::string problem_of(const std::function<void(CheckedRun&)>& change) {
  CheckedRun run = completed();
  change(run);
  const auto account = run.check();
  CHECK(account.has_value() == run.problems.empty());
  return run.problems.empty() ? "" : run.problems.front();
}

/// The same after a change of the paid releases, with totals that fit them.
std::string problem_of_paid(const std::function<void(std::vector<Charge>&)>& change) {
  return problem_of([&](CheckedRun& run) {
    change(run.paid);
    run.write("interrupted", 2);
  });
}

}  // namespace

TEST_CASE("a ledger of the planned charges is recomputed to its total", "[ledger_check]") {
  CheckedRun run = completed();
  const auto account = run.check();
  REQUIRE(account);
  CHECK(run.problems.empty());
  CHECK(account->steps == 4);
  CHECK(account->steps_done == 4);
  CHECK(account->beside == 3);
  CHECK(account->spent.value == 2.5);
  CHECK(account->costs.size() == 7);
  CHECK(account->status == core::RunStatus::completed);
}

TEST_CASE("a release that the plan has not there is found, by its line",
          "[ledger_check][privacy]") {
  // Steps come before the statistic on which they may depend, or before a report.
  CHECK(problem_of_paid([](auto& paid) { paid.erase(paid.begin()); }) ==
        "ledger.jsonl:2: is a release that is not planned");
  CHECK(problem_of_paid([](auto& paid) { paid.erase(paid.begin() + 3); }) ==
        "ledger.jsonl:5: is a release that is not planned");
  CHECK(problem_of_paid([](auto& paid) { std::swap(paid[0], paid[1]); }) ==
        "ledger.jsonl:2: is a release that is not planned");
  // A report comes before its step, there are two last reports, or a step follows the last
  // report.
  CHECK(problem_of_paid([](auto& paid) { std::swap(paid[2], paid[3]); }) ==
        "ledger.jsonl:4: is a release that is not planned");
  CHECK(problem_of_paid([](auto& paid) { paid.push_back(paid.back()); }) ==
        "ledger.jsonl:9: is a release that is not planned");
  CHECK(problem_of_paid([](auto& paid) { std::swap(paid[5], paid[6]); }) ==
        "ledger.jsonl:8: is a release that is not planned");
}

TEST_CASE("the last report may come behind any step", "[ledger_check]") {
  CHECK(
      problem_of_paid([](auto& paid) { paid.erase(paid.begin() + 4, paid.begin() + 6); }).empty());
}

TEST_CASE("a release with other noise, another step or another purpose is found",
          "[ledger_check][privacy]") {
  const char* const other =
      "ledger.jsonl:3: is not the release that the plan charges for there (step 0)";
  CHECK(problem_of_paid([](auto& paid) { paid[1].cost = Event::gaussian(2.0 + 1e-8); }) == other);
  CHECK(problem_of_paid([](auto& paid) { paid[1].release = Event::gaussian(1.0); }) == other);
  CHECK(problem_of_paid([](auto& paid) { paid[1].step = 1; }) == other);
  CHECK(problem_of_paid([](auto& paid) { paid[0].what = "statistic of data.size: others"; }) ==
        "ledger.jsonl:2: is not the release that the plan charges for there (step 0)");
}

TEST_CASE("a step that the budget does not pay for is found", "[ledger_check][privacy]") {
  CHECK(problem_of([](CheckedRun& run) { run.plan.affordable_steps = 3; }) ==
        "ledger.jsonl:7: is a step that the budget does not pay for");
  CHECK(problem_of([](CheckedRun& run) { run.manifest.target_epsilon = 2.4; }) ==
        "ledger.jsonl:8: is more than privacy.target_epsilon allows");
  CHECK(problem_of([](CheckedRun& run) { run.manifest.target_epsilon = 2.5; }).empty());
}

TEST_CASE("totals may differ as processors do, and the larger one is stated",
          "[ledger_check][privacy]") {
  const auto last_total = [](double factor) {
    return [factor](CheckedRun& run) { run.ledger.contents.releases.back().epsilon *= factor; };
  };
  CHECK(problem_of(last_total(1.0 + 1.9e-5)).empty());
  CHECK_THAT(problem_of(last_total(1.0 + 2.1e-5)), ContainsSubstring("ledger.jsonl:8: says that"));
  CHECK_THAT(problem_of(last_total(1.0 - 2.1e-5)), ContainsSubstring("ledger.jsonl:8: says that"));
  CheckedRun run = completed();
  last_total(1.0 + 1e-5)(run);
  CHECK(run.check()->spent.value == 2.5 * (1.0 + 1e-5));
}

TEST_CASE("releases that were paid for together show one total", "[ledger_check]") {
  const auto both = [](double total) {
    return [total](CheckedRun& run) {
      for (const std::size_t line : {1, 2}) run.ledger.contents.releases[line].epsilon = total;
    };
  };
  CHECK(problem_of(both(1.5)).empty());
  CHECK_THAT(problem_of(both(1.25)), ContainsSubstring("ledger.jsonl:4: says that epsilon is"));
}

TEST_CASE("another delta, bound or first line is found", "[ledger_check]") {
  const char* const other =
      "ledger.jsonl:4: says another delta or bound than the manifest and its accountant";
  CHECK(problem_of([](CheckedRun& run) { run.ledger.contents.releases[2].delta = 1e-6; }) == other);
  CHECK(problem_of([](CheckedRun& run) { run.ledger.contents.releases[2].bound = "exact"; }) ==
        other);
  CHECK(problem_of([](CheckedRun& run) { run.facts["target_delta"] = 1e-6; }) ==
        "ledger.jsonl:1: has another 'target_delta' than manifest.yaml and facts.json");
  CHECK_FALSE(problem_of([](CheckedRun& run) { run.facts["adjacency"] = "zero_out"; }).empty());
  // A different version of the program is no contradiction.
  CHECK(problem_of([](CheckedRun& run) { run.facts["privgrad"] = "9.9"; }).empty());
}

TEST_CASE("a last line that does not follow from the lines before it is found",
          "[ledger_check][privacy]") {
  const auto closed = [](const char* status, std::uint64_t steps_done, double total = 2.5) {
    return problem_of([&](CheckedRun& run) { run.close(status, steps_done, total); });
  };
  CHECK(closed("interrupted", 3).empty());
  CHECK_THAT(closed("paused", 4), ContainsSubstring(":9: has an unknown status"));
  CHECK_THAT(closed("unfinished", 4), ContainsSubstring("has an unknown status"));
  CHECK_THAT(closed("completed", 3), ContainsSubstring("not all of its steps were made"));
  CHECK_THAT(closed("interrupted", 5), ContainsSubstring("which were not paid for"));
  CHECK_THAT(closed("completed", 4, 2.4), ContainsSubstring("the total of the lines before it"));
  CHECK_THAT(problem_of([](CheckedRun& run) { run.ledger.contents.close["releases_charged"] = 6; }),
             ContainsSubstring("the total of the lines before it"));
  CHECK_THAT(problem_of([](CheckedRun& run) { run.ledger.contents.close.erase("delta"); }),
             ContainsSubstring("is not the last line that a run writes"));
}

TEST_CASE("a run stops early only at a report that can have ended it", "[ledger_check]") {
  // With a report after every second of eight steps and a patience of 1, the second report can end
  // the run.
  const auto stopped = [](std::uint64_t every, std::uint64_t patience) {
    CheckedRun run;
    run.manifest.target_epsilon.reset();
    run.plan.planned_steps = run.plan.affordable_steps = 8;
    run.plan.charges = full_steps(8, 2.0);
    run.plan.report =
        core::PlannedReport{.noise_multiplier = 2.0, .every = every, .patience = patience};
    run.plan.beside.erase(run.plan.beside.begin() + 1, run.plan.beside.end());
    for (const Charge& one : run.plan.report->charges(8)) run.plan.beside.push_back(one);
    run.paid = {run.plan.beside[0]};
    for (std::uint64_t t = 0; t < 4; ++t) {
      run.paid.push_back(run.plan.charges[t]);
      if ((t + 1) % every == 0) run.paid.push_back(run.plan.report->charge_behind(t + 1));
    }
    run.paid.push_back(run.plan.report->charge());
    run.write("stopped_early", 4);
    run.check();
    return run.problems.empty();
  };
  CHECK(stopped(2, 1));
  CHECK_FALSE(stopped(2, 2));  // only a third report could end the run
  CHECK_FALSE(stopped(2, 0));
  CHECK_FALSE(stopped(3, 1));  // no report is due after the fourth step
}

TEST_CASE("without a plan the events are believed, and added up", "[ledger_check]") {
  CheckedRun run = completed();
  run.paid = {full_steps(1, 1.0).front(), beside_steps(3, 0.5, "anything")};
  run.write("completed", 1);
  run.manifest.target_epsilon = 5.0;
  const auto account = run.check(/*with_plan=*/false);
  REQUIRE(account);
  CHECK(account->spent.value == 5.0);
  CHECK(account->spent.bound == BoundKind::upper);
  run.ledger.contents.releases.back().epsilon = 4.0;
  CHECK_FALSE(run.check(/*with_plan=*/false));
}

TEST_CASE("steps with adaptive noise follow the measurements that are due before them",
          "[ledger_check][privacy]") {
  // A measurement with noise 4 follows every second step; the ledger's line gives the noise of
  // steps.
  const auto checked = [](const std::function<void(std::vector<Charge>&)>& change,
                          const std::optional<Event>& last = {}) {
    CheckedRun run;
    run.plan.statistics.clear();
    run.plan.report.reset();
    run.plan.noise_adapts.emplace();
    run.plan.noise_adapts->measurement = {.every = 2, .loss_bound = 1.0, .noise_multiplier = 4.0};
    run.paid = {full_steps(1, 2.0).front(), full_steps(2, 2.0).back(),
                run.plan.noise_adapts->check_charge(2), full_steps(3, 1.5).back()};
    change(run.paid);
    run.write("interrupted", 1);
    auto& line = run.ledger.contents.releases.back();
    if (last) line.event = line.release = core::to_json(*last);
    const auto account = run.check();
    return run.problems.empty() ? account->noise.noise_multiplier : std::vector<double>{};
  };
  CHECK(checked([](auto&) {}) == std::vector<double>{2.0, 2.0, 1.5});
  CHECK(checked([](auto& paid) { paid.erase(paid.begin() + 2); }).empty());
  CHECK(checked([](auto& paid) { std::swap(paid[1], paid[2]); }).empty());
  CHECK(checked([](auto& paid) { paid[3].release = Event::gaussian(3.0); }).empty());
  CHECK(checked([](auto& paid) { paid[3].cost = Event::gaussian(3.0); }).empty());
  CHECK(checked([](auto& paid) { paid[2].cost = Event::gaussian(5.0); }).empty());
  CHECK(checked([](auto&) {}, Event::laplace(1.5)).empty());
}
