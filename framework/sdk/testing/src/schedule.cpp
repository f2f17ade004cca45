#include "privgrad/schedule.hpp"

#include <algorithm>
#include <cmath>

#include "parameters.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

constexpr std::uint64_t kHorizons[] = {1, 2, 100, 100000};
constexpr const char* kSlots[] = {"learning_rate", "noise_multiplier", "clip_norm", "batch_size",
                                  "local_iterations"};

/// All steps of a short horizon; both ends and a thousand in between of a long one.
std::vector<std::uint64_t> some_steps(std::uint64_t steps) {
  std::vector<std::uint64_t> some;
  const std::uint64_t stride = std::max<std::uint64_t>(1, steps / 1000);
  for (std::uint64_t step = 0; step < steps; step += stride) some.push_back(step);
  if (some.back() != steps - 1) some.push_back(steps - 1);
  return some;
}

std::vector<double> values(const Schedule& schedule, std::uint64_t steps) {
  std::vector<double> values;
  for (const std::uint64_t step : some_steps(steps)) values.push_back(schedule.value(step));
  return values;
}

std::string text_of(const Horizon& horizon) {
  return horizon.slot + " over " + std::to_string(horizon.steps) + " step(s)";
}

bool starts(Schedule& schedule, const Horizon& horizon) {
  return accepted("start() for " + text_of(horizon), {Thrown::config},
                  [&] { schedule.start(horizon); });
}

/// Horizons that the schedule accepts, all lengths for each slot.
std::vector<Horizon> accepted_horizons(const Checker& checker) {
  std::vector<Horizon> found;
  for (const char* slot : kSlots) {
    for (const std::uint64_t steps : kHorizons) {
      Horizon horizon{.steps = steps, .slot = slot};
      if (starts(*checker.make<Schedule>(), horizon)) found.push_back(std::move(horizon));
    }
  }
  return found;
}

void require_good_values(const Schedule& schedule, const Horizon& horizon) {
  const bool shape = schedule.is_shape();
  for (const std::uint64_t step : some_steps(horizon.steps)) {
    const double value = schedule.value(step);
    const auto where = [&] {
      return " is " + format_number(value) + " at step " + std::to_string(step) + " of " +
             text_of(horizon);
    };
    require(std::isfinite(value), "the value" + where() + "; it must be finite");
    require(value >= 0.0, "the value" + where() + "; it must not be negative");
    require(!shape || value > 0.0, "the value" + where() + "; a shape must be positive");
  }
  require(schedule.is_shape() == shape, "is_shape() changed its answer");
}

}  // namespace

void check_schedule(Checker& checker) {
  std::vector<Horizon> horizons;
  if (!checker.rule("accepts_a_horizon", [&] {
        horizons = accepted_horizons(checker);
        require(!horizons.empty(),
                "start() refuses every horizon of 1, 2, 100 and 100000 steps in every slot");
      })) {
    return;
  }
  checker.rule("values_are_finite_and_not_negative", [&] {
    for (const Horizon& horizon : horizons) {
      const auto schedule = checker.make<Schedule>();
      schedule->start(horizon);
      require_good_values(*schedule, horizon);
    }
  });
  checker.rule("values_are_repeatable", [&] {
    for (const Horizon& horizon : horizons) {
      const auto schedule = checker.make<Schedule>();
      schedule->start(horizon);
      const std::vector<double> forwards = values(*schedule, horizon.steps);
      std::vector<double> backwards;
      std::vector<std::uint64_t> steps = some_steps(horizon.steps);
      std::reverse(steps.begin(), steps.end());
      for (const std::uint64_t step : steps) backwards.push_back(schedule->value(step));
      std::reverse(backwards.begin(), backwards.end());
      require(same_bits(forwards, backwards),
              "asked in another order, the values differ in " + text_of(horizon));
    }
  });
  checker.rule("values_are_the_same_on_every_thread", [&] {
    const Horizon& horizon = horizons.back();
    const auto schedule = checker.make<Schedule>();
    schedule->start(horizon);
    const std::vector<double> alone = values(*schedule, horizon.steps);
    for (const std::vector<double>& result :
         on_two_threads([&] { return values(*schedule, horizon.steps); })) {
      require(same_bits(alone, result), "on two threads, the values differ");
    }
  });
  checker.rule("instances_are_independent", [&] {
    const Horizon& horizon = horizons.front();
    const auto schedule = checker.make<Schedule>();
    schedule->start(horizon);
    const std::vector<double> before = values(*schedule, horizon.steps);
    for (const Horizon& other : horizons) checker.make<Schedule>()->start(other);
    require(same_bits(before, values(*schedule, horizon.steps)),
            "starting another instance changed the values");
  });
  check_range_ends(checker, [&](const Params& params) {
    const auto schedule = checker.make<Schedule>(params);
    const Horizon horizon{.steps = 100, .slot = horizons.front().slot};
    if (starts(*schedule, horizon)) require_good_values(*schedule, horizon);
  });
}

}  // namespace privgrad::testing
