#include "privgrad/train/run_estimate.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "privgrad/data/executor.hpp"
#include "privgrad/model/augmented_program.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/train/trainer.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/scaled_rows.hpp"

namespace privgrad::core {
namespace {

/// With this many rows, a pass takes much longer than its setup, but is still quick.
constexpr std::size_t kMostRows = 256;
/// The time of noise, optimizer and copies, per parameter and step.
constexpr double kSecondsPerParameter = 2e-8;

template <class Action>
double seconds_of(Action action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Dataset invented(const ExampleShape& shape, std::size_t rows) {
  return {shape, std::vector<float>(rows * element_count(shape.features), 0.0f),
          std::vector<float>(rows, 0.0f)};
}

/// The total work: numbers of examples and of steps, over all clients of a federated run.
std::pair<double, double> work(const Plan& plan) {
  const auto sum = [](const std::vector<double>& sizes, std::uint64_t steps) {
    const auto end = sizes.begin() + static_cast<std::ptrdiff_t>(steps);
    return std::accumulate(sizes.begin(), end, 0.0);
  };
  if (!plan.federated)
    return {sum(plan.batch_size, plan.steps()), static_cast<double>(plan.steps())};
  double examples = 0.0, steps = 0.0;
  for (const ClientPlan& client : plan.federated->clients) {
    examples += sum(client.plan->batch_size, client.plan->affordable_steps);
    steps += static_cast<double>(client.plan->affordable_steps);
  }
  return {examples, steps};
}

}  // namespace

double estimated_seconds(const Plan& plan) {
  const auto executor = make_executor(1);
  ComponentPtr<Backend> backend;
  const std::unique_ptr<Program> program = make_program(plan, backend, *executor);
  const Components made = make_components(*plan.manifest, plan.setting->groups);
  program->load_parameters(parameters_to_measure(plan));

  const auto [examples, steps] = work(plan);
  const double mean_batch = std::max(1.0, examples / steps);
  const std::size_t rows = std::min(kMostRows, static_cast<std::size_t>(std::ceil(mean_batch)));
  const Dataset data = invented(plan.setting->network.input, rows);
  std::vector<std::uint32_t> batch(rows);
  std::iota(batch.begin(), batch.end(), 0u);
  SumMemory memory;
  const Clip clip{.rule = *made.clipping,
                  .groups = plan.setting->groups,
                  .clip_norm = plan.clip_norm.front(),
                  .count_share = plan.count_share_at(0)};
  const AugmentedStep augmented(*program, RandomKey::from_seed(0), 0);
  const std::unique_ptr<Program> scaled =
      made.scaling == nullptr
          ? nullptr
          : scaled_rows(*program, {made.scaling->shift(), made.scaling->scale()});
  const Program& summed = scaled == nullptr ? *program : *scaled;
  const auto step = [&] {
    if (plan.arithmetic == Arithmetic::exact) {
      exact_sum(summed, data, batch, clip, *executor, 0, &memory);
    } else {
      clipped_sum(summed, data, batch, clip, *executor);
    }
  };
  step();  // the first step also allocates memory that later ones reuse
  const double per_row = seconds_of(step) / static_cast<double>(rows);
  const double per_measured_row =
      seconds_of([&] { evaluate(*program, data, *executor); }) / static_cast<double>(rows);

  const double measured =
      std::ceil(static_cast<double>(plan.manifest->federated ? plan.manifest->federated->rounds
                                                             : plan.steps()) /
                static_cast<double>(plan.evaluate_every())) *
      static_cast<double>(plan.setting->info.train_rows + plan.setting->info.test_rows);
  return per_row * examples + per_measured_row * measured +
         kSecondsPerParameter * static_cast<double>(plan.parameters) * steps;
}

}  // namespace privgrad::core
