#include "privgrad/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "parameters.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

constexpr std::uint64_t kHorizons[] = {1, 2, 100, 100000};
constexpr const char* kSlots[] = {"learning_rate", "noise_multiplier", "clip_norm", "batch_size",
                                  "local_iterations"};

/// Returns all steps of a short horizon, or the ends of a long one and a thousand steps between.
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

bool starts_with(Schedule& schedule, const Horizon& horizon) {
  return accepted("start() for " + text_of(horizon), {Thrown::config},
                  [&] { schedule.start(horizon); });
}

/// Returns the horizons that the schedule accepts: all lengths, for each slot.
std::vector<Horizon> accepted_horizons(const Checker& checker) {
  std::vector<Horizon> found;
  for (const char* slot : kSlots) {
    for (const std::uint64_t steps : kHorizons) {
      Horizon horizon{.steps = steps, .slot = slot};
      if (starts_with(*checker.make<Schedule>(), horizon)) found.push_back(std::move(horizon));
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

/// Returns measurements that may occur, the newest last: with noise, any change of the loss is
/// possible, and a diverged model's loss on public examples is NaN.
std::vector<std::vector<double>> measurements(Measured what) {
  std::vector<std::vector<double>> some{{0.0},       {0.5, 0.5},        {0.9, 0.1, 0.4},
                                        {1e30, 0.0}, {0.0, 1.0, 1e300}, {0.2, 0.0, 0.6, 0.61}};
  if (what != Measured::validation_accuracy) {
    some.push_back({-1e30});
    some.push_back({-0.01, -0.005, 0.2, -1e300});
  }
  if (what == Measured::validation_loss) {
    some.push_back({0.7, std::numeric_limits<double>::infinity()});
    some.push_back({std::numeric_limits<double>::quiet_NaN(), 0.7});
  }
  return some;
}

std::vector<double> all_next(const Schedule& adaptive) {
  std::vector<double> all;
  for (const double current : {1e-6, 0.3, 1.0, 50.0, 1e6}) {
    for (const std::vector<double>& measured : measurements(adaptive.measurement().value().what))
      all.push_back(adaptive.next(current, measured));
  }
  return all;
}

/// \param make  returns a schedule that was started in the slot noise_multiplier.
void check_adaptive(Checker& checker, const std::function<ComponentPtr<Schedule>()>& make) {
  checker.rule("adaptive_noise_begins_flat", [&] {
    const auto schedule = make();
    for (const std::uint64_t step : {1, 50, 99}) {
      require(schedule->value(step) == schedule->value(0) && schedule->value(0) > 0.0,
              "the value at step " + std::to_string(step) +
                  " is not that of step 0, above 0: it is the noise that the run begins with");
    }
  });
  checker.rule("measurement_can_be_made", [&] {
    const Measurement first = checker.make<Schedule>()->measurement().value();
    const auto schedule = make();
    schedule->measurement();
    const Measurement again = schedule->measurement().value();
    require(first.what == again.what && first.every == again.every &&
                same_bits(first.loss_bound, again.loss_bound) &&
                same_bits(first.noise_multiplier, again.noise_multiplier),
            "measurement() changed its answer");
    require_declared(checker, trait::adaptive_noise, "it adapts the noise");
    require(first.every > 0, "measurement() asks for one every 0 steps");
    if (first.what != Measured::loss_change) return;
    for (const double value : {first.loss_bound, first.noise_multiplier}) {
      require(std::isfinite(value) && value > 0.0,
              "the bound and the noise of a loss_change must be finite and above 0");
    }
  });
  checker.rule("adapted_noise_is_finite_and_above_0", [&] {
    for (const double value : all_next(*make())) {
      require(std::isfinite(value) && value > 0.0, "next() gave " + format_number(value));
    }
  });
  checker.rule("adapted_noise_follows_from_its_arguments", [&] {
    const auto schedule = make();
    const std::vector<double> first = all_next(*schedule);
    require(same_bits(first, all_next(*schedule)), "asked again, next() differs");
    require(same_bits(first, all_next(*make())), "another instance's next() differs");
  });
}

}  // namespace

void check_schedule(Checker& checker) {
  std::vector<Horizon> horizons;
  if (!checker.prepare("accepts_a_horizon", [&] {
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
      std::ranges::reverse(steps);
      backwards.reserve(steps.size());
      for (const std::uint64_t step : steps) backwards.push_back(schedule->value(step));
      std::ranges::reverse(backwards);
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
  const auto in_its_slot = [&] {
    auto schedule = checker.make<Schedule>();
    schedule->start({.steps = 100, .slot = "noise_multiplier"});
    return schedule;
  };
  if (checker.make<Schedule>()->measurement()) check_adaptive(checker, in_its_slot);
  check_abilities(checker, horizons);
  check_range_ends(checker, [&](const Params& params) {
    const auto schedule = checker.make<Schedule>(params);
    const Horizon horizon{.steps = 100, .slot = horizons.front().slot};
    if (starts_with(*schedule, horizon)) require_good_values(*schedule, horizon);
  });
}

}  // namespace privgrad::testing
