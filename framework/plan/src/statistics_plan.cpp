#include "privgrad/plan/statistics_plan.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "guard.hpp"
#include "privgrad/bounded_statistic.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/plan/engines.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/plan/setting.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/trust/row_sum.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

/// The most numbers in a contribution; sums of this size take some gigabytes.
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

bool adapts_noise(const Manifest& manifest) {
  const ComponentUse& noise = manifest.noise_multiplier;
  return noise.is_given() && !manifest.noise_off && noise.make<Schedule>()->measurement();
}

/// Refuses settings that cannot be combined with released statistics.
void refuse_setting(const Manifest& manifest, const std::string& name) {
  if (manifest.federated && !supports(Engine::federated, Trait::released_statistics)) {
    throw ConfigError(name +
                      " learns from one sum over all rows, which no client of a federated run "
                      "holds; give its numbers in the manifest, or use a transform that learns "
                      "nothing");
  }
  if (!adapts_noise(manifest)) return;
  throw ConfigError(name + " is paid for before the first step, but " +
                    manifest.noise_multiplier.name() +
                    " chooses the noise during the run, with the whole budget for steps and "
                    "checks; use noise that is known beforehand");
}

/// The noise multiplier with which one Gaussian release of all rows uses the whole budget; computed
/// once, on first use.
class OfBudget {
 public:
  OfBudget(const Manifest& manifest, const Setting& setting)
      : manifest_(manifest), kept_(*setting.kept) {}

  const Manifest& manifest() const noexcept { return manifest_; }
  /// \pre there is a budget
  double multiplier() {
    const auto charges_at = [](double multiplier) {
      const Event release = Event::gaussian(multiplier);
      return std::vector<Charge>{{0, release, release}};
    };
    if (!found_) {
      found_ = kept_.scale(
          [&] { return calibrated_scale(manifest_, charges_at, *manifest_.target_epsilon); });
    }
    return *found_;
  }

 private:
  const Manifest& manifest_;
  KeptNumbers& kept_;
  std::optional<double> found_;
};

double multiplier_of(const StatisticNoise& noise, OfBudget& of_budget) {
  const Manifest& manifest = of_budget.manifest();
  if (manifest.noise_off) return 0.0;
  if (noise.multiplier > 0.0) return noise.multiplier;
  if (!manifest.target_epsilon) {
    throw ConfigError(
        "asks for a share of the budget, but there is no budget; set privacy.target_epsilon, or "
        "give noise_multiplier");
  }
  const double multiplier = of_budget.multiplier() / std::sqrt(noise.share);
  // Checked here, because noise is drawn only after it is paid for.
  constexpr double kMost = kLargestRoundedSigma / static_cast<double>(kExactLevels);
  if (multiplier <= kMost) return multiplier;
  throw ConfigError("a share of " + format_number(noise.share) +
                    " of the budget needs a noise multiplier of " + format_number(multiplier) +
                    ", allowed is at most " + format_number(kMost) + "; give a larger share");
}

/// Refuses a budget that statistics exhaust: changing the noise schedule would not help.
void check_budget(const Manifest& manifest, const std::vector<Charge>& charges) {
  if (manifest.noise_off || !manifest.target_epsilon || charges.empty()) return;
  const double cost = guard_answer(manifest, charges).value;
  if (cost < *manifest.target_epsilon) return;
  throw privacy_error_at(
      manifest, "privacy.target_epsilon",
      "a budget of " + format_number(*manifest.target_epsilon) +
          " leaves nothing for training: the " + std::to_string(charges.size()) +
          " statistic(s) that are released before the steps, or reported, cost " +
          format_number(cost));
}

}  // namespace

Charge PlannedStatistic::charge() const {
  const Event release = Event::gaussian(noise_multiplier);
  return {transform, release, release, "statistic of " + name + ": " + what};
}

Charge PlannedReport::charge() const {
  const Event release =
      noise_multiplier > 0.0 ? Event::gaussian(noise_multiplier) : Event::nothing();
  return {0, release, release, "accuracy on the training rows"};
}

Charge PlannedReport::charge_behind(std::uint64_t steps) const {
  Charge one = charge();
  one.step = steps;
  one.what += " so far";
  return one;
}

bool PlannedReport::ends_run(std::span<const double> released) const {
  if (patience == 0 || released.empty()) return false;
  // the first of several equal values
  const auto best = std::ranges::max_element(released);
  return static_cast<std::uint64_t>(released.end() - best) > patience;
}

std::vector<Charge> PlannedReport::charges(std::uint64_t steps) const {
  std::vector<Charge> all;
  if (noise_multiplier <= 0.0) return all;
  const std::uint64_t count = between(steps);
  for (std::uint64_t i = 1; i <= count; ++i) all.push_back(charge_behind(i * every));
  all.push_back(charge());
  return all;
}

std::optional<PlannedReport> plan_report(const Manifest& manifest, const Setting& setting,
                                         std::uint64_t steps) {
  if (!manifest.report_accuracy) return std::nullopt;
  constexpr const char* kKey = "report.train_accuracy";
  const auto refuse = [&](const std::string& what) { throw error_at(manifest, kKey, what); };
  if (manifest.federated && !supports(Engine::federated, Trait::accuracy_report))
    refuse("is one sum over all rows, which no client of a federated run holds; leave it out");
  if (setting.network.loss == Loss::next_token) {
    refuse(
        "needs classes, which the loss next_token does not have; a perplexity of private rows is "
        "not released either, because one row's part in it has no bound: measure it on public test "
        "rows (data.test_is_public)");
  }
  if (setting.network.input.classes == 0) refuse("needs classes, but the targets are reals");
  if (adapts_noise(manifest)) {
    refuse("is paid for after the last step, but " + manifest.noise_multiplier.name() +
           " chooses the noise during the run, with the whole budget; use noise that is known "
           "beforehand");
  }
  const AccuracyReport& wish = *manifest.report_accuracy;
  if (wish.patience > 0 && manifest.random_iterate) {
    refuse(
        "ends the run by what it releases, but output: random_iterate draws one of all steps "
        "beforehand; use output: last");
  }
  OfBudget of_budget(manifest, setting);
  try {
    PlannedReport report{.share = wish.noise.share, .every = wish.every, .patience = wish.patience};
    StatisticNoise each = wish.noise;
    each.share /= static_cast<double>(report.between(steps) + 1);
    report.noise_multiplier = multiplier_of(each, of_budget);
    return report;
  } catch (const ConfigError& problem) {
    throw error_at(manifest, kKey, problem.what());
  }
}

void check_shares(const Manifest& manifest, const std::vector<PlannedStatistic>& statistics,
                  const std::optional<PlannedReport>& report, std::uint64_t steps) {
  std::vector<Charge> charges = charges_of(statistics);
  double shares = report ? report->share : 0.0;
  for (const PlannedStatistic& one : statistics) shares += one.share;
  if (shares >= 1.0) {
    const bool is_of_transforms = std::ranges::any_of(
        statistics, [](const auto& one) { return one.of == StatisticOf::transform; });
    throw error_at(manifest,
                   is_of_transforms     ? "data.transforms"
                   : statistics.empty() ? "report"
                                        : statistics.front().name,
                   "the shares of statistics and reports add up to " + format_number(shares) +
                       " of the budget, allowed is less than 1");
  }
  if (report) {
    const std::vector<Charge> reports = report->charges(steps);
    charges.insert(charges.end(), reports.begin(), reports.end());
  }
  check_budget(manifest, charges);
}

std::vector<Charge> charges_of(const std::vector<PlannedStatistic>& statistics) {
  std::vector<Charge> charges;
  for (const PlannedStatistic& one : statistics) {
    if (one.noise_multiplier > 0.0) charges.push_back(one.charge());
  }
  return charges;
}

namespace {

/// Plans the number of rows, in total or per class: a row adds 1 to one number, and 0 to others.
PlannedStatistic plan_count(const Manifest& manifest, PlannedStatistic planned,
                            const StatisticNoise& noise, OfBudget& of_budget) {
  const auto refuse = [&](const std::string& what) {
    throw error_at(manifest, planned.name, what);
  };
  if (manifest.federated && !supports(Engine::federated, Trait::released_statistics))
    refuse(
        "is one sum over all rows, which no client of a federated run holds; give it as a "
        "number, or leave it out");
  if (planned.size == 0) refuse("needs classes, but the targets are reals");
  if (adapts_noise(manifest)) {
    refuse("is paid for before the first step, but " + manifest.noise_multiplier.name() +
           " chooses the noise during the run, with the whole budget; use noise that is known "
           "beforehand");
  }
  planned.l2_bound = 1.0;
  planned.share = noise.share;
  try {
    planned.noise_multiplier = multiplier_of(noise, of_budget);
  } catch (const ConfigError& problem) {
    refuse(problem.what());
  }
  return planned;
}

}  // namespace

std::vector<PlannedStatistic> plan_statistics(const Manifest& manifest, const Setting& setting) {
  std::vector<PlannedStatistic> statistics;
  OfBudget of_budget(manifest, setting);
  if (manifest.size_noise) {
    PlannedStatistic rows{.of = StatisticOf::rows,
                          .name = "data.size",
                          .what = "number of training examples",
                          .size = 1};
    statistics.push_back(plan_count(manifest, std::move(rows), *manifest.size_noise, of_budget));
  }
  if (manifest.class_count_noise) {
    PlannedStatistic classes{.of = StatisticOf::classes,
                             .name = "report.class_counts",
                             .what = "number of training examples of each class",
                             .size = setting.info.shape.classes};
    statistics.push_back(
        plan_count(manifest, std::move(classes), *manifest.class_count_noise, of_budget));
  }
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
      statistics.push_back({.of = StatisticOf::transform,
                            .transform = i,
                            .name = use.name(),
                            .what = shown_line(request.what),
                            .size = request.size,
                            .l2_bound = request.l2_bound,
                            .noise_multiplier = multiplier_of(request.noise, of_budget),
                            .share = request.noise.share});
    });
  }
  return statistics;
}

ReportFacts facts_of(const PlannedReport& planned) {
  ReportFacts facts{.noise_multiplier = planned.noise_multiplier};
  if (planned.share > 0.0) facts.share = planned.share;
  if (planned.every > 0) facts.every = planned.every;
  if (planned.patience > 0) facts.patience = planned.patience;
  return facts;
}

}  // namespace privgrad::core
