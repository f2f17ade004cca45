#include "answers_again.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "privgrad/bounded_statistic.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/data/apply_transform.hpp"
#include "privgrad/plan/setting.hpp"
#include "privgrad/plan/statistics_plan.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/record/run_lines.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/json_problem.hpp"
#include "privgrad/trust/released_again.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr double kSameAnswer = 1e-9;
constexpr int kDeepestLine = 64;  // the deepest nesting of JSON in a line

bool is_near(double a, double b, double scale) { return std::abs(a - b) <= kSameAnswer * scale; }

bool are_alike(const FittedTensor& a, const FittedTensor& b) {
  double largest = 0.0;
  for (const double value : b.values) largest = std::max(largest, std::abs(value));
  return a.name == b.name && a.shape == b.shape &&
         std::ranges::equal(a.values, b.values,
                            [&](double x, double y) { return is_near(x, y, largest); });
}

/// The shape of the examples that transform `number` receives.
ExampleShape input_of(const Plan& plan, std::size_t number) {
  ExampleShape shape = plan.setting->info.shape;
  for (std::size_t i = 0; i < number; ++i)
    shape = plan.manifest->transforms[i].make<Transform>()->output_shape(shape);
  return shape;
}

std::vector<FittedTensor> learnt_again(const Plan& plan, const ReleasedStatistic& released) {
  const ComponentUse& use = plan.manifest->transforms[released.transform];
  const auto transform = use.make<Transform>();
  dynamic_cast<BoundedStatistic&>(*transform)
      .learn(input_of(plan, released.transform),
             released_again(released.values, released.noise_stddev));
  return fitted_of(use, *transform).values;
}

}  // namespace

std::vector<std::string> learnt_otherwise(const Plan& plan, const ReleasedCounts& released,
                                          const ModelFile& model, std::vector<std::string>& notes) {
  std::vector<std::string> problems;
  std::size_t next = 0;
  for (const PlannedStatistic& one : plan.statistics) {
    if (one.of != StatisticOf::transform) continue;
    if (one.size > kMostRecordedNumbers) {
      notes.push_back("what transform " + one.name + " has learnt was not learnt again: of " +
                      std::to_string(one.size) + " numbers, none is recorded");
      continue;
    }
    // A statistic that is missing in summary.json is reported elsewhere.
    if (next == released.statistics.size()) break;
    const ReleasedStatistic& said = released.statistics[next++];
    const double stddev = one.noise_multiplier * one.l2_bound / divisor_of(plan, released);
    if (!is_near(said.noise_stddev, stddev, stddev))
      problems.push_back("summary.json: its 'reported.statistics' have other noise than the plan");
    if (one.transform >= model.preprocessing.size()) {
      problems.push_back("model.safetensors: lacks transform " + std::to_string(one.transform) +
                         " (" + one.name + "), which the plan has");
      continue;
    }
    const std::vector<FittedTensor> again = learnt_again(plan, said);
    const std::vector<FittedTensor>& kept = model.preprocessing.at(one.transform).fitted.values;
    // Compares tensors by name, because the file may list them in another order.
    const bool is_it =
        again.size() == kept.size() && std::ranges::all_of(again, [&](const FittedTensor& tensor) {
          return std::ranges::any_of(
              kept, [&](const FittedTensor& other) { return are_alike(tensor, other); });
        });
    if (!is_it) {
      problems.push_back(
          "model.safetensors: transform " + std::to_string(one.transform) + " (" + one.name +
          ") has learnt other values than follow from the release that summary.json records");
    }
  }
  return problems;
}

std::string other_clip_norm(const Plan& plan, std::string_view lines) {
  if (!plan.clip_norm_adapts() || plan.federated) return "";
  const auto clipping = plan.manifest->clipping.make<Clipping>();
  clipping->start(plan.setting->groups);
  const auto& rule = dynamic_cast<const AdaptiveClipNorm&>(*clipping);
  std::optional<double> before = plan.clip_norm.front();
  std::optional<Count> step_before = 0;
  while (!lines.empty()) {
    const std::string_view text = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), text.size() + 1));
    if (!json_problem(kDeepestLine, text).empty()) return "has a line that no run writes";
    const auto line = facts_in<MetricsLine>(Json::parse(text, nullptr, false), "metrics.jsonl");
    const auto clipped = line.clipped_fraction.value_or(std::nullopt);
    if (line.step && line.clip_norm && clipped && before && step_before &&
        *line.step == *step_before + 1) {
      const double next = std::clamp(rule.next_clip_norm(*before, 1.0 - *clipped),
                                     kSmallestClipNorm, kLargestClipNorm);
      if (!is_near(next, *line.clip_norm, std::abs(next)))
        return "the clip norm behind step " + std::to_string(*line.step) +
               " does not follow from what was released";
    }
    before = line.clip_norm;
    step_before = line.step;
  }
  return "";
}

}  // namespace privgrad::core
