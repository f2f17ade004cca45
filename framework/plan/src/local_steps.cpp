#include "privgrad/plan/local_steps.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "privgrad/error.hpp"
#include "privgrad/value.hpp"
#include "step_schedules.hpp"

namespace privgrad::core {

LocalIterationsRule start_local_iterations(const Federated& wish) {
  const ComponentUse& use = wish.local_iterations;
  LocalIterationsRule made;
  made.schedule = use.make<Schedule>();
  made.rule = dynamic_cast<AdaptiveLocalIterations*>(made.schedule.get());
  if (made.rule == nullptr) return made;
  use.with_position(
      [&] { made.schedule->start({.steps = wish.rounds, .slot = "local_iterations"}); });
  return made;
}

LocalSteps plan_local_steps(const Federated& wish, std::uint64_t most) {
  const ComponentUse& use = wish.local_iterations;
  LocalSteps steps;
  steps.most = most;
  if (start_local_iterations(wish).rule != nullptr) return steps;
  const ScheduleValues values =
      schedule_values(use, "local_iterations", wish.rounds, /*above_zero=*/true);
  use.with_position([&] {
    if (values.is_shape) throw ConfigError("gives a shape without a scale; give whole numbers");
    for (std::size_t round = 0; round < values.at.size(); ++round) {
      const double value = values.at[round];
      if (value != std::floor(value) || value > static_cast<double>(kMostSteps)) {
        throw ConfigError("is " + format_number(value) + " in round " + std::to_string(round) +
                          ", expected a whole number from 1 to " + std::to_string(kMostSteps));
      }
      steps.of_round.push_back(static_cast<std::uint64_t>(value));
      steps.in_all += steps.of_round.back();
    }
    steps.most = std::min(steps.most, steps.in_all);
  });
  return steps;
}

}  // namespace privgrad::core
