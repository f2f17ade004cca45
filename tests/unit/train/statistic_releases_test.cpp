#include "privgrad/train/statistic_releases.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "fake_program.hpp"
#include "small_components.hpp"

using namespace privgrad;
using core::RandomKey;
using core::StatisticOf;
using core::StatisticReleases;

namespace {

/// The counts of five rows, two of class 0 and three of class 1, with this noise.
struct CountedRows {
  core::Manifest manifest = counted({"data.transforms=[]"});
  core::Plan plan;
  Dataset rows{{{1}, 2}, {0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 1.0f, 1.0f, 0.0f, 1.0f}};
  TempDir dir;
  CountingAccountant accountant;
  std::optional<core::Ledger> ledger;
  std::optional<core::SecondLook> second_look;
  std::vector<std::string> shown;

  explicit CountedRows(double noise, std::optional<double> budget = {}) {
    use_small_components(manifest);
    plan.manifest = &manifest;
    plan.setting = std::make_shared<core::Setting>();
    plan.statistics = {planned(StatisticOf::rows, "rows", 1, noise),
                       planned(StatisticOf::classes, "classes", 2, noise)};
    ledger.emplace(dir.path() / "ledger.jsonl",
                   core::Budget{.target_epsilon = budget, .target_delta = kCountedDelta},
                   accountant, "counting", nlohmann::json::object());
    second_look.emplace(plan);
  }
  static core::PlannedStatistic planned(StatisticOf of, const char* name, std::size_t size,
                                        double noise) {
    return {.of = of,
            .name = name,
            .what = "counts",
            .size = size,
            .l2_bound = 1.0,
            .noise_multiplier = noise};
  }
  StatisticReleases releases(std::uint64_t seed, bool with_ledger = true) {
    return StatisticReleases(plan, RandomKey::from_seed(seed), serial,
                             with_ledger ? &*ledger : nullptr, nullptr, *second_look,
                             [this](const core::PlannedStatistic& one, std::span<const float>) {
                               shown.push_back(one.name);
                             });
  }
  core::ReleasedCounts released(std::uint64_t seed = 1) {
    StatisticReleases made = releases(seed);
    made.pay();
    made.release_counts(rows);
    return made.counts();
  }
  std::size_t lines() const {
    return core::read_ledger(dir.path() / "ledger.jsonl").releases.size();
  }
};

}  // namespace

TEST_CASE("all statistics are paid for before the first is released", "[releases][privacy]") {
  CountedRows run(2.0);
  StatisticReleases releases = run.releases(1);
  CHECK_THROWS_AS(releases.release_counts(run.rows), PrivacyError);
  CHECK(run.lines() == 0);
  releases.pay();
  CHECK(run.lines() == 2);
  CHECK(run.shown.empty());
  releases.release_counts(run.rows);
  CHECK(run.shown == std::vector<std::string>{"rows", "classes"});
  CHECK_THROWS_AS(releases.release_counts(run.rows), PrivacyError);  // each was paid for once
}

TEST_CASE("statistics that the budget does not pay for are not released", "[releases][privacy]") {
  CountedRows run(1.0, 1.9);  // the counts cost 2
  StatisticReleases releases = run.releases(1);
  CHECK_THROWS_AS(releases.pay(), PrivacyError);
  CHECK_THROWS_AS(releases.release_counts(run.rows), PrivacyError);
  CHECK(run.lines() == 0);
}

TEST_CASE("statistics with noise need a ledger, and without noise they need none",
          "[releases][privacy]") {
  CountedRows run(2.0);
  CHECK_THROWS_WITH(run.releases(1, false).pay(), ContainsSubstring("need a ledger"));
  run.manifest.noise_off = true;
  StatisticReleases exact = run.releases(1, false);
  exact.pay();
  exact.release_counts(run.rows);
  CHECK(exact.counts().rows == 5);
  CHECK(exact.counts().classes == std::vector<double>{2.0, 3.0});
}

TEST_CASE("counts have their noise, the same when they are repeated, and no two share it",
          "[releases][privacy]") {
  const core::ReleasedCounts near = CountedRows(1.0 / 1024.0).released();
  CHECK(near.rows == 5);
  CHECK_THAT(near.classes[0], WithinAbs(2.0, 0.01));
  CHECK_THAT(near.classes[1], WithinAbs(3.0, 0.01));
  CHECK(near.classes != std::vector<double>{2.0, 3.0});
  CHECK(CountedRows(2.0).released(1) == CountedRows(2.0).released(1));
  CHECK_FALSE(CountedRows(2.0).released(1) == CountedRows(2.0).released(2));

  const RandomKey key = RandomKey::from_seed(1);
  const auto hex = [&](StatisticOf of) { return core::noise_key_of(of, key).public_hex(); };
  CHECK(hex(StatisticOf::rows) != hex(StatisticOf::classes));
  CHECK(hex(StatisticOf::rows) != hex(StatisticOf::transform));
  CHECK(hex(StatisticOf::classes) != hex(StatisticOf::transform));
}

TEST_CASE("kept counts are those that were released, and must fit the plan", "[releases][resume]") {
  CountedRows run(2.0);
  const auto saved = [&](std::uint64_t rows, std::vector<double> classes) {
    core::StateWriter out;
    core::save_statistics(out, run.plan,
                          {.rows = rows, .classes = std::move(classes), .statistics = {}}, {});
    return out.text();
  };
  const auto kept = [&](const std::string& text) {
    core::StateReader in(text, "state");
    const core::ReleasedCounts counts = core::KeptStatistics(in, run.plan).counts();
    in.end();
    return counts;
  };
  CHECK(kept(saved(7, {1.5, -2.5})) ==
        core::ReleasedCounts{.rows = 7, .classes = {1.5, -2.5}, .statistics = {}});
  CHECK_THROWS_AS(kept(saved(0, {1.5, -2.5})), IoError);
  CHECK_THROWS_AS(kept(saved(7, {1.5})), IoError);
}
