#include "privgrad/plan/statistics_plan.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "counted_manifest.hpp"
#include "privgrad/plan/setting.hpp"

using namespace privgrad;
using core::Charge;
using core::Manifest;
using core::PlannedReport;
using core::PlannedStatistic;
using core::Setting;
using core::StatisticOf;

namespace {

/// A manifest with a budget of 3, whose noise is known beforehand: a Gaussian release that uses the
/// whole budget has a noise multiplier of 1/sqrt(3), and a release with a share s has 1/sqrt(3 s).
Manifest with_budget() {
  Manifest manifest = counted();
  manifest.noise_multiplier = {};
  return manifest;
}

Setting of_classes(std::size_t classes) {
  Setting setting;
  setting.info.shape = {{2}, classes};
  setting.network.input = {{2}, classes};
  return setting;
}

double noise_of_share(double share) { return 1.0 / std::sqrt(3.0 * share); }

StatisticRequest means(StatisticNoise noise = {.multiplier = 2.0}) {
  return {.what = "means", .size = 2, .l2_bound = 1.5, .noise = noise};
}

/// Returns a released number of rows.
PlannedStatistic count(double noise, double share = 0.0) {
  return {.of = StatisticOf::rows,
          .name = "data.size",
          .what = "rows",
          .size = 1,
          .l2_bound = 1.0,
          .noise_multiplier = noise,
          .share = share};
}

std::vector<PlannedStatistic> planned(const Manifest& manifest, const StatisticRequest& request) {
  Setting setting = of_classes(5);
  setting.requests = {std::nullopt, request};  // for [flatten, scale]
  return core::plan_statistics(manifest, setting);
}

}  // namespace

TEST_CASE("statistics are released in the order of counts and transforms, each with its noise",
          "[statistics][privacy]") {
  Manifest manifest = with_budget();
  manifest.size_noise = StatisticNoise{.share = 0.25};
  manifest.class_count_noise = StatisticNoise{.multiplier = 4.0};
  const auto all = planned(manifest, means({.share = 0.125}));
  REQUIRE(all.size() == 3);
  CHECK(all[0].of == StatisticOf::rows);
  CHECK(all[0].name == "data.size");
  CHECK(all[0].size == 1);
  CHECK(all[0].l2_bound == 1.0);  // a row adds 1
  CHECK_THAT(all[0].noise_multiplier, WithinRel(noise_of_share(0.25), 1e-8));
  CHECK(all[1].of == StatisticOf::classes);
  CHECK(all[1].size == 5);
  CHECK(all[1].l2_bound == 1.0);
  CHECK(all[1].noise_multiplier == 4.0);
  CHECK(all[2].of == StatisticOf::transform);
  CHECK(all[2].transform == 1);
  CHECK(all[2].l2_bound == 1.5);
  CHECK_THAT(all[2].noise_multiplier, WithinRel(noise_of_share(0.125), 1e-8));

  // Each statistic is charged in full, with its own noise.
  const std::vector<Charge> charges = core::charges_of(all);
  REQUIRE(charges.size() == 3);
  for (std::size_t i = 0; i < charges.size(); ++i) {
    CHECK(charges[i].cost == Event::gaussian(all[i].noise_multiplier));
    CHECK(charges[i].release == charges[i].cost);
  }
  CHECK(charges[2].step == 1);
  CHECK(charges[2].what == "statistic of scale: means");
}

TEST_CASE("without noise nothing is charged for statistics and reports", "[statistics]") {
  Manifest manifest = with_budget();
  manifest.noise_off = true;
  const auto all = planned(manifest, means());
  CHECK(all.front().noise_multiplier == 0.0);
  CHECK(core::charges_of(all).empty());
  CHECK(PlannedReport{.noise_multiplier = 0.0, .every = 1}.charges(5).empty());
}

TEST_CASE("a request that breaks its contract is refused", "[statistics][privacy]") {
  const auto changed = [](const auto& change) {
    StatisticRequest request = means();
    change(request);
    return planned(with_budget(), request);
  };
  CHECK_NOTHROW(planned(with_budget(), means()));
  CHECK_THROWS_AS(changed([](auto& one) { one.size = 0; }), PluginError);
  CHECK_THROWS_AS(changed([](auto& one) { one.what.clear(); }), PluginError);
  for (const double bound : {0.0, -1.0, 1.0 / 0.0, 0.0 / 0.0})
    CHECK_THROWS_AS(changed([&](auto& one) { one.l2_bound = bound; }), PluginError);
  for (const StatisticNoise& noise : std::vector<StatisticNoise>{
           {}, {2.0, 0.5}, {-1.0, 0.0}, {0.0, 1.0}, {0.0, -0.5}, {1.0 / 0.0, 0.0}})
    CHECK_THROWS_AS(planned(with_budget(), means(noise)), PluginError);
}

TEST_CASE("statistics of all rows are refused where nobody has all rows, by their key",
          "[statistics]") {
  Manifest manifest = with_budget();
  manifest.federated.emplace();
  CHECK_THROWS_WITH(planned(manifest, means()), ContainsSubstring("data.transforms.1"));
  manifest.size_noise = StatisticNoise{.multiplier = 1.0};
  CHECK_THROWS_WITH(core::plan_statistics(manifest, of_classes(5)), ContainsSubstring("data.size"));
  manifest.size_noise.reset();
  manifest.class_count_noise = StatisticNoise{.multiplier = 1.0};
  CHECK_THROWS_WITH(core::plan_statistics(manifest, of_classes(5)),
                    ContainsSubstring("report.class_counts"));
  manifest.federated.reset();
  CHECK_NOTHROW(core::plan_statistics(manifest, of_classes(5)));
  CHECK_THROWS_WITH(core::plan_statistics(manifest, of_classes(0)),
                    ContainsSubstring("the targets are reals"));
}

TEST_CASE("a share needs a budget, and noise that can be drawn", "[statistics]") {
  Manifest manifest = with_budget();
  // 1/sqrt(3 s) is above the largest noise, 2^34, if s is 1e-22.
  CHECK_THROWS_WITH(planned(manifest, means({.share = 1e-22})),
                    ContainsSubstring("allowed is at most 17179869184"));
  manifest.target_epsilon.reset();
  CHECK_THROWS_WITH(planned(manifest, means({.share = 0.5})),
                    ContainsSubstring("set privacy.target_epsilon"));
}

TEST_CASE("shares below 1 are allowed together, and 1 is refused by the key that can change it",
          "[statistics][privacy]") {
  const Manifest manifest = with_budget();
  const auto check = [&](const std::vector<PlannedStatistic>& all, double report) {
    std::optional<PlannedReport> planned;
    if (report > 0.0) planned = {.noise_multiplier = 100.0, .share = report};
    core::check_shares(manifest, all, planned, 10);
  };
  const PlannedStatistic rows = count(100.0, 0.5);
  PlannedStatistic of_scale = rows;
  of_scale.of = StatisticOf::transform;
  CHECK_NOTHROW(check({rows}, 0.4999));
  CHECK_THROWS_WITH(check({rows}, 0.5), ContainsSubstring("data.size: the shares"));
  CHECK_THROWS_WITH(check({rows, of_scale}, 0.0), ContainsSubstring("data.transforms: the shares"));
  CHECK_THROWS_WITH(check({}, 1.0), ContainsSubstring("report: the shares"));
}

TEST_CASE("statistics and reports must leave something for training", "[statistics][privacy]") {
  // The budget is 3. A release with noise 1 costs 1: the count, one report between four steps, and
  // the last one cost 3 in all.
  const Manifest manifest = with_budget();
  const auto check = [&](std::uint64_t every) {
    core::check_shares(manifest, {count(1.0)},
                       PlannedReport{.noise_multiplier = 1.0, .every = every}, 4);
  };
  CHECK_NOTHROW(check(0));
  CHECK_NOTHROW(check(4));
  CHECK_THROWS_WITH(check(2), ContainsSubstring("leaves nothing for training: the 3 statistic"));
}

TEST_CASE("a report's share is divided among all its releases", "[statistics][privacy]") {
  Manifest manifest = with_budget();
  manifest.report_accuracy = core::AccuracyReport{.noise = {.share = 0.5}, .every = 2};
  // Reports come after 2 and 4 of 5 steps, and for the final model: each has a sixth of the budget.
  const auto report = core::plan_report(manifest, of_classes(3), 5);
  REQUIRE(report);
  CHECK_THAT(report->noise_multiplier, WithinRel(noise_of_share(1.0 / 6.0), 1e-8));
  CHECK(report->share == 0.5);
  const std::vector<Charge> charges = report->charges(5);
  REQUIRE(charges.size() == 3);
  CHECK(charges[0] == report->charge_behind(2));
  CHECK(charges[1] == report->charge_behind(4));
  CHECK(charges[2] == report->charge());
  CHECK(charges[0].step == 2);
  CHECK(charges[2].what == "accuracy on the training rows");
  CHECK(charges[0].what == charges[2].what + " so far");
  CHECK(charges[0].cost == Event::gaussian(report->noise_multiplier));
}

TEST_CASE("a report is refused where it has no meaning, by its key", "[statistics]") {
  Manifest manifest = with_budget();
  CHECK_FALSE(core::plan_report(manifest, of_classes(3), 5));
  manifest.report_accuracy = core::AccuracyReport{.noise = {.multiplier = 1.0}, .patience = 1};
  CHECK_NOTHROW(core::plan_report(manifest, of_classes(3), 5));
  CHECK_THROWS_WITH(core::plan_report(manifest, of_classes(0), 5),
                    ContainsSubstring("report.train_accuracy: needs classes"));
  manifest.random_iterate = true;
  CHECK_THROWS_WITH(core::plan_report(manifest, of_classes(3), 5),
                    ContainsSubstring("report.train_accuracy: ends the run"));
}

TEST_CASE("reports between steps are those before the last step", "[statistics]") {
  const PlannedReport report{.noise_multiplier = 1.0, .every = 3};
  // Reports come after step 3 of 4 to 6 steps, and after steps 3 and 6 of 7; the report after the
  // last step is the final one.
  const std::vector<std::uint64_t> between{0, 0, 0, 0, 1, 1, 1, 2};
  for (std::uint64_t steps = 0; steps < between.size(); ++steps) {
    CHECK(report.between(steps) == between[steps]);
    std::uint64_t due = 0;
    for (std::uint64_t t = 0; t <= steps; ++t) due += report.is_due(t, steps) ? 1 : 0;
    CHECK(due == between[steps]);
  }
  CHECK_FALSE(PlannedReport{.noise_multiplier = 1.0}.is_due(3, 10));
}

TEST_CASE("a run ends when as many reports as its patience are no better, and not before",
          "[statistics]") {
  const PlannedReport report{.every = 1, .patience = 2};
  const auto ends = [&](const std::vector<double>& released) { return report.ends_run(released); };
  CHECK_FALSE(ends({}));
  CHECK_FALSE(ends({0.5}));
  CHECK_FALSE(ends({0.5, 0.4}));
  CHECK(ends({0.5, 0.4, 0.3}));
  CHECK_FALSE(ends({0.5, 0.4, 0.6}));
  CHECK(ends({0.5, 0.5, 0.5}));  // an equal value is not better
  CHECK(ends({0.1, 0.9, 0.2, 0.8}));
  CHECK_FALSE(PlannedReport{.every = 1}.ends_run(std::vector<double>{0.5, 0.4, 0.3, 0.2}));
}
