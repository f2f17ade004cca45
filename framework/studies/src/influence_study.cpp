#include "privgrad/studies/influence_study.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "privgrad/manifest/yaml.hpp"
#include "privgrad/statistics/paired_statistics.hpp"

namespace privgrad::core {
namespace {

constexpr const char* kWho = "privgrad influence";

ManifestChange change(std::string key, Value value) {
  mark_all(value, {1, 1});
  return {std::move(key), std::move(value), kWho};
}

/// The noise multipliers of all steps, with a factor applied to one step.
ManifestChange noise(const InfluenceQuestion& question, std::uint64_t step, double factor) {
  Value::List values(question.noise_multiplier.begin(), question.noise_multiplier.end());
  values[step] = question.noise_multiplier[step] * factor;
  return change("schedules.noise_multiplier",
                Value::Object{{"kind", "list", {}}, {"values", std::move(values), {}}});
}

double train_loss(const RunRecord& run) {
  const auto found = run.metrics.find("train_loss");
  if (run.status == "completed" && found != run.metrics.end() && found->second)
    return *found->second;
  throw NumericError("a run of the estimate ended as '" + run.status +
                     "' and has no final loss; use smaller factors, or a lower learning rate");
}

/// The least-squares slope of y over x.
double slope(const std::vector<double>& x, const std::vector<double>& y) {
  double mean_x = 0.0;
  double mean_y = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / static_cast<double>(x.size());
    mean_y += y[i] / static_cast<double>(x.size());
  }
  double above = 0.0;
  double below = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    above += (x[i] - mean_x) * (y[i] - mean_y);
    below += (x[i] - mean_x) * (x[i] - mean_x);
  }
  return above / below;
}

}  // namespace

std::vector<std::uint64_t> spread_steps(std::uint64_t steps, std::uint64_t count) {
  std::vector<std::uint64_t> chosen;
  if (count <= 1) return {steps - 1};
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t step = (i * (steps - 1) + (count - 1) / 2) / (count - 1);
    if (chosen.empty() || step > chosen.back()) chosen.push_back(step);
  }
  return chosen;
}

Study influence_study(const InfluenceQuestion& question) {
  Study study;
  study.file = kWho;
  study.name = "influence-" + question.manifest->name;
  study.base = question.manifest->resolved;
  study.sets = question.changes;
  // The noise is given, and the use of rows is public or declared, so the runs have no budget.
  for (const char* key : {"privacy.target_epsilon", "privacy.also", "schedules.noise_std"})
    study.sets.push_back(change(key, Value()));
  study.sets.push_back(change("mode", "research"));
  study.sets.push_back(
      change("evaluate_every", static_cast<std::int64_t>(question.noise_multiplier.size())));
  const auto add = [&](const std::string& name, std::uint64_t step, double factor) {
    study.arms.push_back(
        {.name = name, .variant = name, .changes = {noise(question, step, factor)}});
  };
  add("as-is", 0, 1.0);
  for (const std::uint64_t step : question.steps) {
    for (const double factor : question.factors) {
      add("step-" + std::to_string(step) + "-x" + format_number(factor), step, factor);
    }
  }
  for (std::uint64_t seed = 1; seed <= question.repeats; ++seed) study.seeds.push_back(seed);
  study.baselines = {0};
  study.metrics = {{"train_loss", false}};
  study.equal_privacy = false;
  study.training_data_is_public = true;
  return study;
}

std::vector<InfluenceEstimate> estimated_influence(const InfluenceQuestion& question,
                                                   const StudyRuns& runs) {
  std::vector<InfluenceEstimate> estimates;
  std::size_t arm = 1;
  for (const std::uint64_t step : question.steps) {
    const double variance = question.noise_multiplier[step] * question.noise_multiplier[step];
    std::vector<double> slopes;
    for (std::uint64_t seed = 0; seed < question.repeats; ++seed) {
      std::vector<double> squares{variance};
      std::vector<double> losses{train_loss(runs[0][seed])};
      for (std::size_t f = 0; f < question.factors.size(); ++f) {
        squares.push_back(variance * question.factors[f] * question.factors[f]);
        losses.push_back(train_loss(runs[arm + f][seed]));
      }
      slopes.push_back(slope(squares, losses));
    }
    arm += question.factors.size();
    const SampleSummary summary = summarize(slopes);
    estimates.push_back({.step = step,
                         .influence = summary.mean,
                         .standard_error = summary.std.value_or(0.0) /
                                           std::sqrt(static_cast<double>(question.repeats))});
  }
  return estimates;
}

std::string within_noise(std::span<const InfluenceEstimate> estimates, std::uint64_t repeats) {
  constexpr double kTogether = 0.95;
  if (repeats < 2) return "one run of each kind says nothing about chance; use --repeats";
  const double share = (1.0 - kTogether) / static_cast<double>(estimates.size());
  const double half_width = student_half_width(repeats - 1, 1.0 - share);
  double highest_low = -std::numeric_limits<double>::infinity();
  double lowest_high = std::numeric_limits<double>::infinity();
  for (const InfluenceEstimate& one : estimates) {
    highest_low = std::max(highest_low, one.influence - half_width * one.standard_error);
    lowest_high = std::min(lowest_high, one.influence + half_width * one.standard_error);
  }
  if (estimates.size() < 2 ? highest_low > 0.0 : highest_low > lowest_high) return "";
  const bool holds_zero = highest_low <= 0.0 && lowest_high >= 0.0;
  return std::string("these estimates are within noise: ") +
         (holds_zero ? "no influence at all" : "the same influence of every step") +
         " lies in all of their 95 % intervals (shared evenly among them); measure with more "
         "--repeats, or with larger --factors";
}

}  // namespace privgrad::core
