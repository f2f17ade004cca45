#include "owner_plan.hpp"

#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "small_components.hpp"

using namespace privgrad;
using core::Charge;
using core::OwnerSetting;
using core::Plan;
using core::Setting;

namespace {

/// Has the same value in every step, a number of halves.
template <int kHalves, bool kIsShape = false>
class Halves final : public Schedule {
 public:
  explicit Halves(const Params&) {}
  void start(const Horizon&) override {}
  double value(std::uint64_t) const override { return 0.5 * kHalves; }
  bool is_shape() const override { return kIsShape; }
};

/// Charges each step as if it had a hundred times its noise.
class UnderchargingSampler final : public Sampler {
 public:
  explicit UnderchargingSampler(const Params&) {}
  void start(const SamplingPlan&) override {}
  double expected_batch_size(std::uint64_t) const override { return 20.0; }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return std::vector<Event>(releases.size(), Event::gaussian(100.0));
  }
  void sample(std::uint64_t, std::size_t, const RandomSource&,
              std::vector<std::uint32_t>&) override {}
};

/// An owner of 20 rows. Its steps have noise 1, and each costs 1 of a budget of 3.
struct PlannedOwner {
  core::Manifest manifest = counted({"data.transforms=[]"});
  Setting setting;
  OwnerSetting owner{.dataset_size = 20, .steps = 5};
  std::shared_ptr<core::KeptNumbers> kept = std::make_shared<core::KeptNumbers>();

  PlannedOwner() {
    use_small_components(manifest);
    manifest.clip_norm = in_manifest<Schedule, Halves<3>>("halves", "schedules.clip_norm");
    manifest.learning_rate = in_manifest<Schedule, Halves<1>>("half", "schedules.learning_rate");
    manifest.noise_multiplier = in_manifest<Schedule, Halves<2>>("one", "schedules.noise");
    setting.groups = {{"all", 0, 2}};
    setting.parameters = 2;
    setting.network.input.classes = 2;
    setting.info.shape.classes = 2;
    setting.plan_key = core::RandomKey::from_seed(1);
  }
  /// Leaves the scale of the noise open.
  void calibrate(double target) {
    manifest.noise_multiplier =
        in_manifest<Schedule, Halves<2, true>>("uniform", "schedules.noise");
    manifest.target_epsilon = target;
  }
  Plan plan() {
    setting.kept = kept;
    return core::plan_owner(manifest, std::make_shared<Setting>(std::move(setting)), owner);
  }
};

}  // namespace

TEST_CASE("steps of given noise are as many as the budget pays for", "[owner][privacy]") {
  PlannedOwner one;
  const Plan plan = one.plan();
  CHECK(plan.planned_steps == 5);
  CHECK(plan.affordable_steps == 3);
  CHECK(plan.epsilon().value == 3.0);
  CHECK(plan.event == Event::self_composed(3, Event::gaussian(1.0)));
  CHECK(plan.charges == full_steps(5, 1.0));
  CHECK(plan.noise_multiplier == std::vector<double>(5, 1.0));
  CHECK(plan.clip_norm == std::vector<double>(5, 1.5));
  CHECK(plan.learning_rate == std::vector<double>(5, 0.5));
  CHECK(plan.batch_size == std::vector<double>(5, 20.0));
  CHECK(plan.costs_inverse_square);
  CHECK_FALSE(plan.order_key);
}

TEST_CASE("noise of an open scale is the least that pays for all steps", "[owner][privacy]") {
  // Five steps with noise s cost 5/s^2: s^2 is 5 for a budget of 1.
  PlannedOwner one;
  one.calibrate(1.0);
  const Plan plan = one.plan();
  CHECK(plan.affordable_steps == 5);
  CHECK(plan.epsilon().value <= 1.0);
  CHECK_THAT(plan.noise_multiplier.front(), WithinRel(std::sqrt(5.0), 1e-8));
  CHECK(plan.noise_multiplier == std::vector<double>(5, plan.noise_multiplier.front()));
}

TEST_CASE("what is released beside the steps is paid for by more noise of the steps",
          "[owner][privacy]") {
  // A count with noise 2 and an estimate with noise 4 cost 1/4 and 1/16; the steps have 11/16.
  PlannedOwner one;
  one.calibrate(1.0);
  one.manifest.size_noise = StatisticNoise{.multiplier = 2.0};
  one.owner.beside = {beside_steps(0, 4.0, "estimate")};
  const Plan plan = one.plan();
  CHECK_THAT(plan.noise_multiplier.front(), WithinRel(std::sqrt(80.0 / 11.0), 1e-7));
  CHECK(plan.epsilon().value <= 1.0);
  REQUIRE(plan.beside.size() == 2);
  CHECK(plan.beside[0] == plan.statistics.front().charge());
  CHECK(plan.beside[1] == one.owner.beside.front());
}

TEST_CASE("reports are charged with the steps that come before them", "[owner][privacy]") {
  // Three steps with noise 1, and reports with noise 2 after the second and the last step, cost 3
  // 1/2 in total. Two steps and the last report cost 2 1/4.
  const auto affordable = [](double budget) {
    PlannedOwner one;
    one.manifest.target_epsilon = budget;
    one.manifest.report_accuracy = core::AccuracyReport{.noise = {.multiplier = 2.0}, .every = 2};
    return one.plan().affordable_steps;
  };
  CHECK(affordable(3.51) == 3);
  CHECK(affordable(3.49) == 2);
}

TEST_CASE("a run that reports may end early is accounted for in full, as an upper bound",
          "[owner][privacy]") {
  const auto planned = [](std::uint64_t patience) {
    PlannedOwner one;
    one.manifest.report_accuracy =
        core::AccuracyReport{.noise = {.multiplier = 2.0}, .every = 1, .patience = patience};
    return one.plan();
  };
  CHECK(planned(1).is_accounted_in_full);
  CHECK(planned(1).charges_are_bounds);
  CHECK_FALSE(planned(0).is_accounted_in_full);
  CHECK_FALSE(planned(0).charges_are_bounds);
}

TEST_CASE("a sampler that charges less than its batches cost is refused", "[owner][privacy]") {
  // Every row takes part in the only step, with noise 1, whose delta at epsilon 0 is 2 Phi(1/2) - 1
  // = 0.383.
  const auto plan = [](double delta) {
    PlannedOwner one;
    one.manifest.target_delta = delta;
    one.manifest.sampler = in_manifest<Sampler, UnderchargingSampler>("cheap", "sampler");
    one.owner.steps = 1;
    return one.plan();
  };
  CHECK_THROWS_WITH(plan(0.37), ContainsSubstring("one step alone has a delta of at least"));
  CHECK_NOTHROW(plan(0.39));
}

TEST_CASE("without noise nothing is charged, and nothing is promised", "[owner][privacy]") {
  PlannedOwner one;
  one.manifest.noise_off = true;
  const Plan plan = one.plan();
  CHECK(plan.charges.empty());
  CHECK(std::isinf(plan.epsilon().value));
  CHECK(plan.event == Event::non_private());
  CHECK(plan.affordable_steps == 5);
  CHECK(plan.noise_multiplier == std::vector<double>(5, 0.0));
}

TEST_CASE("a plan that is made again takes its scale from the first, without a search",
          "[owner][resume]") {
  PlannedOwner one;
  one.calibrate(1.0);
  const Plan first = one.plan();
  PlannedOwner again;
  again.calibrate(1.0);
  int tried = 0;
  again.manifest.on_trial = [&] { ++tried; };
  again.kept = std::make_shared<core::KeptNumbers>(one.kept->scales(), std::vector<double>{},
                                                   one.kept->schedules_text());
  CHECK(static_cast<const core::PlanNumbers&>(again.plan()) == first);
  CHECK(tried == 0);
}

TEST_CASE("values of the owner replace the manifest's schedules", "[owner]") {
  PlannedOwner one;
  one.owner.clip_norm = 7.0;
  one.owner.learning_rate = 0.125;
  const Plan plan = one.plan();
  CHECK(plan.clip_norm == std::vector<double>(5, 7.0));
  CHECK(plan.learning_rate == std::vector<double>(5, 0.125));
}
