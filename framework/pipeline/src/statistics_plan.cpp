#include "privgrad/pipeline/statistics_plan.hpp"

#include <cmath>
#include <optional>

#include "guard.hpp"
#include "privgrad/adaptive_schedule.hpp"
#include "privgrad/bounded_statistic.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/pipeline/plan.hpp"
#include "privgrad/pipeline/setting.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/trust/calibrate.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/row_sum.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

/// Of a contribution: some gigabytes of sums.
constexpr std::size_t kMostNumbers = std::size_t{1} << 27;

void check_request(const StatisticRequest& request, const std::string& who) {
  const auto refuse = [&](const std::string& what) {
    throw PluginError(who + ": broke its contract: asks for a statistic " + what);
  };
  if (request.size == 0) refuse("of no numbers");
  if (request.what.empty()) refuse("without saying which");
  if (!std::isfinite(request.l2_bound) || request.l2_bound <= 0.0)
    refuse("whose contributions have a bound of " + format_number(request.l2_bound));
  const auto is_given = [](double value) { return std::isfinite(value) && value > 0.0; };
  const StatisticNoise& noise = request.noise;
  const bool is_one = is_given(noise.multiplier)
                          ? noise.share == 0.0
                          : noise.multiplier == 0.0 && noise.share < 1.0 && is_given(noise.share);
  if (!is_one) refuse("without exactly one of a noise multiplier and a share below 1");
}

/// What such statistics do not go together with.
void refuse_setting(const Manifest& manifest, const std::string& name) {
  if (manifest.federated) {
    throw ConfigError(name +
                      " learns from one sum over all rows, which no client of a federated run "
                      "holds; give its numbers in the manifest, or use a transform that learns "
                      "nothing");
  }
  const ComponentUse& noise = manifest.noise_multiplier;
  if (!noise.is_given() || manifest.noise_off) return;
  const auto schedule = noise.make<Schedule>();
  if (dynamic_cast<const AdaptiveSchedule*>(schedule.get()) == nullptr) return;
  throw ConfigError(name + " is paid for before the first step, but " + noise.name() +
                    " chooses the noise as the run goes, with the whole budget for steps and "
                    "checks; use noise that is known beforehand");
}

/// The noise multiplier of one Gaussian release of all rows that takes the whole budget.
double multiplier_of_budget(const Manifest& manifest) {
  const auto cost_at = [&](double multiplier) {
    const Event release = Event::gaussian(multiplier);
    return guard_answer(manifest, {{0, release, release}}).value;
  };
  return smallest_scale(cost_at, *manifest.target_epsilon);
}

/// \param of_budget  found once, if it is asked for.
double multiplier_of(const StatisticNoise& noise, const Manifest& manifest,
                     std::optional<double>& of_budget) {
  if (manifest.noise_off) return 0.0;
  if (noise.multiplier > 0.0) return noise.multiplier;
  if (!manifest.target_epsilon) {
    throw ConfigError(
        "asks for a share of the budget, and there is none; set privacy.target_epsilon, or give "
        "noise_multiplier");
  }
  if (!of_budget) of_budget = multiplier_of_budget(manifest);
  return *of_budget / std::sqrt(noise.share);
}

/// Here, and not at the schedule of the noise, which could not do anything about it.
void check_budget(const Manifest& manifest, const std::vector<PlannedStatistic>& statistics) {
  if (manifest.noise_off || !manifest.target_epsilon || statistics.empty()) return;
  const double cost = guard_answer(manifest, charges_of(statistics)).value;
  if (cost < *manifest.target_epsilon) return;
  throw privacy_error_at(
      manifest, "privacy.target_epsilon",
      "a budget of " + format_number(*manifest.target_epsilon) +
          " leaves nothing for training: the " + std::to_string(statistics.size()) +
          " statistic(s) that transforms learn from cost " + format_number(cost));
}

}  // namespace

Charge PlannedStatistic::charge() const {
  const Event release = Event::gaussian(noise_multiplier);
  return {transform, release, release, "statistic of " + name + ": " + what};
}

std::vector<Charge> charges_of(const std::vector<PlannedStatistic>& statistics) {
  std::vector<Charge> charges;
  for (const PlannedStatistic& one : statistics) {
    if (one.noise_multiplier > 0.0) charges.push_back(one.charge());
  }
  return charges;
}

std::vector<PlannedStatistic> plan_statistics(const Manifest& manifest, const Setting& setting) {
  std::vector<PlannedStatistic> statistics;
  std::optional<double> of_budget;
  for (std::size_t i = 0; i < setting.requests.size(); ++i) {
    if (!setting.requests[i]) continue;
    const StatisticRequest& request = *setting.requests[i];
    const ComponentUse& use = manifest.transforms[i];
    check_request(request, use.component->full_name());
    use.with_position([&] {
      refuse_setting(manifest, use.name());
      check_clip_norm(request.l2_bound, "the bound of a row's contribution ");
      if (request.size > kMostNumbers) {
        throw ConfigError("asks for a statistic of " + std::to_string(request.size) +
                          " numbers, allowed are at most " + std::to_string(kMostNumbers));
      }
      statistics.push_back({.transform = i,
                            .name = use.name(),
                            .what = shown_line(request.what),
                            .size = request.size,
                            .l2_bound = request.l2_bound,
                            .noise_multiplier = multiplier_of(request.noise, manifest, of_budget),
                            .share = request.noise.share});
    });
  }
  double shares = 0.0;
  for (const PlannedStatistic& one : statistics) shares += one.share;
  if (shares >= 1.0) {
    throw error_at(manifest, "data.transforms",
                   "the shares of their statistics add up to " + format_number(shares) +
                       " of the budget, allowed is less than 1");
  }
  check_budget(manifest, statistics);
  return statistics;
}

}  // namespace privgrad::core
