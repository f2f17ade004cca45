#include "sampler_epochs.hpp"

#include <algorithm>
#include <cmath>

#include "checker.hpp"
#include "privgrad/value.hpp"

namespace privgrad::testing {
namespace {

/// For each whole epoch, the step of each row.
using Steps = std::vector<std::vector<std::size_t>>;

Steps steps_of(const std::vector<Batch>& batches, std::size_t epoch_steps, std::size_t rows) {
  Steps all;
  for (std::size_t first = 0; first < batches.size(); first += epoch_steps) {
    const std::size_t count = std::min(epoch_steps, batches.size() - first);
    std::vector<std::size_t> step_of(rows, epoch_steps);
    for (std::size_t step = 0; step < count; ++step) {
      for (const std::uint32_t row : batches[first + step]) {
        require(step_of[row] == epoch_steps,
                "an example is in two batches of the epoch of steps " + std::to_string(first) +
                    " to " + std::to_string(first + count - 1) + ", charged as random allocation");
        step_of[row] = step;
      }
    }
    if (count < epoch_steps) break;
    require(std::ranges::find(step_of, epoch_steps) == step_of.end(),
            "an example is in no batch of the epoch of steps " + std::to_string(first) + " to " +
                std::to_string(first + count - 1) + ", charged as random allocation");
    all.push_back(std::move(step_of));
  }
  return all;
}

/// Checks how often each row is in each step, and how often two rows are in the same step.
void require_own_draws(const Steps& steps, std::size_t epoch_steps, std::size_t rows) {
  const double q = 1.0 / static_cast<double>(epoch_steps);
  const auto epochs = static_cast<double>(steps.size());
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<double> times(epoch_steps, 0.0);
    double together = 0.0;
    for (const auto& step_of : steps) {
      times[step_of[row]] += 1.0;
      if (step_of[row] == step_of[(row + 1) % rows]) together += 1.0;
    }
    const std::string of_epochs =
        "of " + std::to_string(steps.size()) + " epochs, the number of those ";
    for (const double count : times)
      require_near(count, q * epochs, q * (1.0 - q) * epochs,
                   of_epochs + "in which an example is in one step");
    if (rows > 1)
      require_near(together, q * epochs, q * (1.0 - q) * epochs,
                   of_epochs + "in which two examples are in the same step");
  }
}

/// Checks how much batch sizes vary, and how many rows have the same step in consecutive epochs.
void require_fresh_draws(const Steps& steps, std::size_t epoch_steps, std::size_t rows) {
  const double q = 1.0 / static_cast<double>(epoch_steps);
  const auto n = static_cast<double>(rows);
  const auto epochs = static_cast<double>(steps.size());
  std::vector<double> squares(epoch_steps, 0.0);
  double again = 0.0;
  for (std::size_t epoch = 0; epoch < steps.size(); ++epoch) {
    std::vector<double> sizes(epoch_steps, 0.0);
    for (std::size_t row = 0; row < rows; ++row) {
      sizes[steps[epoch][row]] += 1.0;
      if (epoch > 0 && steps[epoch][row] == steps[epoch - 1][row]) again += 1.0;
    }
    for (std::size_t step = 0; step < epoch_steps; ++step)
      squares[step] += (sizes[step] - q * n) * (sizes[step] - q * n);
  }
  const double variance = n * q * (1.0 - q);
  // By the fourth central moment of the binomial: 3 v^2 + v (1 - 6 q (1 - q)).
  const double spread = 2.0 * variance * variance + variance * (1.0 - 6.0 * q * (1.0 - q));
  for (const double square : squares)
    require_near(square, epochs * variance, epochs * std::max(0.0, spread),
                 "the sum of squared deviations of the batch size of one step of each epoch "
                 "(random allocation varies it)");
  require_near(again, (epochs - 1.0) * n * q, (epochs - 1.0) * variance,
               "the number of examples that have the same step in consecutive epochs");
}

}  // namespace

void require_near(double sum, double mean, double variance, const std::string& what) {
  require(std::abs(sum - mean) <= 8.0 * std::sqrt(variance) + 4.0,
          what + " is " + format_number(sum) + ", expected " + format_number(mean) + " +- " +
              format_number(std::sqrt(variance)));
}

void require_epochs(const std::vector<Batch>& batches, std::uint64_t epoch_steps,
                    std::size_t rows) {
  const Steps steps = steps_of(batches, epoch_steps, rows);
  if (steps.empty()) throw NotChecked{"the epoch that it charges has more steps than are tried"};
  require_own_draws(steps, epoch_steps, rows);
  require_fresh_draws(steps, epoch_steps, rows);
}

std::vector<std::vector<Batch>> batches_of_groups(const std::vector<Batch>& batches,
                                                  std::uint64_t cycle) {
  std::vector<std::vector<Batch>> of_groups(cycle);
  for (std::size_t step = 0; step < batches.size(); ++step) {
    Batch& places = of_groups[step % cycle].emplace_back();
    for (const std::uint32_t row : batches[step]) {
      require(row % cycle == step % cycle, "step " + std::to_string(step) + " has example " +
                                               std::to_string(row) + ", which in cycles of " +
                                               std::to_string(cycle) + " steps belongs to another");
      places.push_back(static_cast<std::uint32_t>(row / cycle));
    }
  }
  return of_groups;
}

}  // namespace privgrad::testing
