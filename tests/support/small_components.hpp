// Components with which a trainer makes steps that can be followed by hand, and a plan with them.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "counted_manifest.hpp"
#include "fake_clipping.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/trust/ledger_reader.hpp"

/// Every row takes part in every step, which is charged in full.
class EverybodySampler final : public privgrad::Sampler {
 public:
  explicit EverybodySampler(const privgrad::Params&) {}
  void start(const privgrad::SamplingPlan& plan) override { size_ = plan.dataset_size; }
  double expected_batch_size(std::uint64_t) const override { return static_cast<double>(size_); }
  std::vector<privgrad::Event> charges(std::span<const privgrad::Event> releases) const override {
    return {releases.begin(), releases.end()};
  }
  void sample(std::uint64_t, std::size_t rows, const privgrad::RandomSource&,
              std::vector<std::uint32_t>& batch) override {
    batch.resize(rows);
    std::iota(batch.begin(), batch.end(), 0u);
  }

 private:
  std::uint64_t size_ = 0;
};

/// Independent noise, with the planned multiplier of each step.
class PlannedNoiseAggregator final : public privgrad::Aggregator {
 public:
  explicit PlannedNoiseAggregator(const privgrad::Params&) {}
  void start(const privgrad::AggregationPlan& plan) override {
    noise_.assign(plan.noise_multipliers.begin(), plan.noise_multipliers.end());
  }
  privgrad::ReleaseRecipe recipe(std::uint64_t step) const override {
    return {.keep = 0.0, .earlier = {}, .noise = {{.node = step, .multiplier = noise_.at(step)}}};
  }

 private:
  std::vector<double> noise_;
};

/// Gradient descent with momentum. A resumed run needs its state.
class RollingOptimizer final : public privgrad::Optimizer {
 public:
  explicit RollingOptimizer(const privgrad::Params&) {}
  void start(std::size_t parameters) override { velocity_.assign(parameters, 0.0f); }
  void step(std::span<float> parameters, const privgrad::Released& gradient,
            const privgrad::StepContext&) override {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      velocity_[i] = 0.5f * velocity_[i] + gradient.values()[i];
      parameters[i] -= velocity_[i];
    }
  }
  std::vector<privgrad::StateMember> state() override { return {{"velocity", &velocity_}}; }

 private:
  std::vector<float> velocity_;
};

class FlatClipping final : public privgrad::Clipping {
 public:
  explicit FlatClipping(const privgrad::Params&) {}
  void start(std::span<const privgrad::ParameterGroup>) override {}
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    flat_clipping().factors(squared_norms, clip_norm, factors);
  }
};

/// A program of two parameters whose gradients are the rows, and whose losses are their sums. When
/// it receives rows, it records the number of the ledger's releases, and the rows' first features.
class WatchingProgram : public privgrad::Program {
 public:
  explicit WatchingProgram(std::filesystem::path ledger) : ledger_(std::move(ledger)) {}
  std::size_t parameter_count() const override { return 2; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const privgrad::Batch& batch, std::span<float> rows) const override {
    look_at(batch);
    std::copy(batch.features.begin(), batch.features.end(), rows.begin());
  }
  privgrad::Evaluation evaluate(const privgrad::Batch& batch) const override {
    look_at(batch);
    return {.loss = std::accumulate(batch.features.begin(), batch.features.end(), 0.0),
            .correct = 0};
  }
  /// Returns no value if it has received no row.
  std::optional<std::size_t> lines_when_looked() const { return lines_when_looked_; }
  const std::vector<float>& seen() const { return seen_; }

 private:
  void look_at(const privgrad::Batch& batch) const {
    if (std::filesystem::exists(ledger_))
      lines_when_looked_ = privgrad::core::read_ledger(ledger_).releases.size();
    for (std::size_t i = 0; i < batch.rows(); ++i) seen_.push_back(batch.features[2 * i]);
  }

  std::filesystem::path ledger_;
  mutable std::optional<std::size_t> lines_when_looked_;
  mutable std::vector<float> seen_;
};

inline void use_small_components(privgrad::core::Manifest& manifest) {
  using namespace privgrad;
  manifest.sampler = in_manifest<Sampler, EverybodySampler>("everybody", "sampler");
  manifest.aggregator = in_manifest<Aggregator, PlannedNoiseAggregator>("planned", "aggregator");
  manifest.optimizer = in_manifest<Optimizer, RollingOptimizer>("rolling", "optimizer");
  manifest.clipping = in_manifest<Clipping, FlatClipping>("flat", "clipping");
}

/// Returns a plan for two parameters, whose steps have noise 1 and cost 1 each.
/// \param manifest  outlives the plan.
inline privgrad::core::Plan small_plan(const privgrad::core::Manifest& manifest, std::size_t rows,
                                       std::size_t steps, std::uint64_t affordable) {
  privgrad::core::Setting setting;
  setting.groups = {{"all", 0, 2}};
  privgrad::core::Plan plan;
  plan.manifest = &manifest;
  plan.setting = std::make_shared<privgrad::core::Setting>(std::move(setting));
  plan.dataset_size = plan.facts.dataset_size = rows;
  plan.parameters = 2;
  plan.planned_steps = plan.facts.steps = steps;
  plan.affordable_steps = affordable;
  plan.noise_multiplier.assign(steps, 1.0);
  plan.clip_norm.assign(steps, 1.0);
  plan.learning_rate.assign(steps, 1.0);
  plan.batch_size.assign(steps, static_cast<double>(rows));
  plan.charges = full_steps(steps, 1.0);
  plan.arithmetic = privgrad::core::Arithmetic::floating;
  return plan;
}
