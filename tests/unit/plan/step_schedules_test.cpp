#include "step_schedules.hpp"

#include <limits>
#include <string>
#include <vector>

#include "counted_manifest.hpp"
#include "privgrad/plan/local_steps.hpp"

using namespace privgrad;
using core::ScheduleValues;
using core::StepSchedules;

namespace {

using Numbers = std::vector<double>;

/// The values of the next schedule that a test plans.
Numbers next_values;
bool next_is_shape = false;

class ListedSchedule final : public Schedule {
 public:
  explicit ListedSchedule(const Params&) {}
  void start(const Horizon&) override {}
  double value(std::uint64_t step) const override { return next_values.at(step); }
  bool is_shape() const override { return next_is_shape; }
};

core::ComponentUse listed(Numbers values, bool is_shape = false) {
  next_values = std::move(values);
  next_is_shape = is_shape;
  return in_manifest<Schedule, ListedSchedule>("listed", "schedules.some");
}

ScheduleValues shape(Numbers values) { return {.at = std::move(values), .is_shape = true}; }
ScheduleValues fixed(Numbers values) { return {.at = std::move(values), .is_shape = false}; }

}  // namespace

TEST_CASE("a scale multiplies the noise, divides clip norms, and shrinks batches", "[schedules]") {
  StepSchedules schedules;
  schedules.noise = shape({1.0, 0.5});
  schedules.clip_norm = fixed({4.0, 3.0});
  CHECK(schedules.at(3.0).noise_multiplier == Numbers{3.0, 1.5});
  CHECK(schedules.at(3.0).clip_norm == Numbers{4.0, 3.0});

  schedules.noise = fixed({2.0, 2.0});
  schedules.clip_norm = shape({4.0, 3.0});
  CHECK(schedules.at(2.0).noise_multiplier == Numbers{2.0, 2.0});
  CHECK(schedules.at(2.0).clip_norm == Numbers{2.0, 1.5});
}

TEST_CASE("noise that is fixed itself is divided by the clip norm of its step", "[schedules]") {
  StepSchedules schedules;
  schedules.noise_is_std = true;
  schedules.noise = fixed({6.0, 6.0});
  schedules.clip_norm = shape({4.0, 3.0});
  CHECK(schedules.at(2.0).noise_multiplier == Numbers{3.0, 4.0});  // divided by 2 and 1.5
}

TEST_CASE("at a scale of 1 the largest batch is the whole data set, and none is larger",
          "[schedules]") {
  StepSchedules schedules;
  schedules.noise = fixed({2.0, 2.0});
  schedules.clip_norm = fixed({1.0, 1.0});
  schedules.batch_size = shape({1.0, 4.0});
  schedules.dataset_size = 100;
  CHECK(schedules.at(1.0).batch_size == Numbers{25.0, 100.0});
  CHECK(schedules.at(4.0).batch_size == Numbers{6.25, 25.0});
  CHECK(schedules.at(0.5).batch_size == Numbers{50.0, 100.0});
  schedules.batch_size = fixed({10.0, 20.0});
  CHECK(schedules.at(4.0).batch_size == Numbers{10.0, 20.0});
}

TEST_CASE("the open schedule is the one whose scale the target determines", "[schedules]") {
  const core::Manifest manifest = counted();
  StepSchedules schedules;
  CHECK(schedules.open(manifest) == nullptr);
  schedules.batch_size.is_shape = true;
  CHECK(schedules.open(manifest) == &manifest.batch_size);
  schedules.batch_size.is_shape = false;
  schedules.clip_norm.is_shape = true;
  CHECK(schedules.open(manifest) == &manifest.clip_norm);
  schedules.clip_norm.is_shape = false;
  schedules.noise.is_shape = true;
  CHECK(schedules.open(manifest) == &manifest.noise_multiplier);
  schedules.noise_is_std = true;
  CHECK(schedules.open(manifest) == &manifest.noise_std);
}

TEST_CASE("a schedule's values are numbers, and those of noise and clip norms above 0",
          "[schedules][privacy]") {
  const auto values = [](const Numbers& numbers, bool above_zero) {
    return core::schedule_values(listed(numbers), "clip_norm", numbers.size(), above_zero).at;
  };
  CHECK(values({1.0, 0.0}, false) == Numbers{1.0, 0.0});
  CHECK_THROWS_WITH(values({1.0, 0.0}, true),
                    ContainsSubstring("m.yaml:3:1: error: schedules.some: is 0 at step 1, allowed "
                                      "is (0, inf)"));
  for (const double wrong :
       {-1e-300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS(values({1.0, wrong}, false), core::ManifestError);
}

TEST_CASE("a learning rate has no scale that a target could determine", "[schedules]") {
  CHECK(core::learning_rates(listed({0.5, 0.0}), 2) == Numbers{0.5, 0.0});
  CHECK_THROWS_WITH(core::learning_rates(listed({0.5, 0.25}, true), 2),
                    ContainsSubstring("gives a shape without a scale"));
}

TEST_CASE("only one schedule is left open, and only where it costs privacy", "[schedules]") {
  // The listed schedule gives its shape to every slot for which a manifest uses it.
  core::Manifest manifest = counted();
  const auto plan = [&](bool noise_is_given, bool batch_is_given, bool is_shape) {
    const core::ComponentUse use = listed({1.0, 1.0}, is_shape);
    manifest.clip_norm = use;
    manifest.noise_multiplier = noise_is_given ? use : core::ComponentUse{};
    manifest.noise_std = noise_is_given ? core::ComponentUse{} : use;
    manifest.batch_size = batch_is_given ? use : core::ComponentUse{};
    return core::plan_schedules(manifest, {.dataset_size = 10, .steps = 2, .clip_norm = {}}, 2,
                                false);
  };
  CHECK_NOTHROW(plan(true, true, false));
  CHECK_THROWS_WITH(plan(true, false, true), ContainsSubstring("noise_multiplier is relative"));
  CHECK_THROWS_WITH(plan(false, false, true), ContainsSubstring("and so does schedules.noise_std"));
  CHECK_THROWS_WITH(plan(false, true, true), ContainsSubstring("and so does schedules.clip_norm"));
  // `privacy.calibrate: all` opens the scale even of noise that the manifest gives.
  manifest.scale_all_noise = true;
  CHECK(plan(true, false, false).noise_is_rescaled);
  manifest.noise_off = true;
  CHECK_FALSE(plan(true, false, false).noise_is_rescaled);
}

TEST_CASE("the steps of clients are whole numbers, and at most those that the manifest allows",
          "[schedules]") {
  core::Manifest manifest = counted();  // steps: 100
  manifest.federated.emplace();
  const auto local = [&](const Numbers& values, bool is_shape = false) {
    manifest.federated->rounds = values.size();
    manifest.federated->local_iterations = listed(values, is_shape);
    return core::plan_local_steps(*manifest.federated, manifest.steps);
  };
  const core::LocalSteps few = local({3.0, 1.0, 2.0});
  CHECK(few.of_round == std::vector<std::uint64_t>{3, 1, 2});
  CHECK(few.in_all == 6);
  CHECK(few.most == 6);
  CHECK(local({70.0, 70.0}).most == 100);
  for (const double wrong : {1.5, 0.0, 5'000'001.0})
    CHECK_THROWS_AS(local({wrong}), core::ManifestError);
  CHECK_NOTHROW(local({5'000'000.0}));
  CHECK_THROWS_AS(local({1.0}, true), core::ManifestError);
}
