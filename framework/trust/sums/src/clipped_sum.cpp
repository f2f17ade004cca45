#include "privgrad/trust/clipped_sum.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "gradient_rows.hpp"
#include "microbatches.hpp"
#include "privgrad/trust/joint_release.hpp"
#include "privgrad/trust/program_around.hpp"
#include "privgrad/trust/row_sum.hpp"
#include "privgrad/wide_registers.hpp"
#include "trust_base.hpp"

// Sums in floating point: for comparison, for runs without noise, and for measurements; none of
// these is protected.
namespace privgrad::core {
namespace {

/// Computes the factors of an example from its squared norms, both [groups].
using Factors = std::function<void(std::span<const double>, std::span<double>)>;

/// Returns the squared norm of factor * gradient.
double squared_length(std::span<const double> squared_norms, std::span<const double> factors) {
  double squares = 0.0;
  for (std::size_t g = 0; g < factors.size(); ++g) {
    if (factors[g] != 0.0) squares += squared_norms[g] * factors[g] * factors[g];
  }
  return squares;
}

/// total += the factors times the gradients of a pass, rounded to a grid on which the longest
/// product just fits, which uses all bits of the program's cells.
void add_pass(const ExactClipping& program, const Batch& batch, const Factors& factors,
              SumMemory& memory, std::vector<std::int64_t>& cells, std::vector<double>& total) {
  const std::size_t groups = program.groups();
  const auto norms = resized(memory.squared_norms, batch.rows() * groups);
  const auto scales = resized(memory.scales, batch.rows() * groups);
  program.backward(batch, *memory.pass, norms);
  double longest = 0.0;
  for (std::size_t i = 0; i < batch.rows(); ++i) {
    const auto own = norms.subspan(i * groups, groups);
    const auto scale = scales.subspan(i * groups, groups);
    factors(own, scale);
    const double squares = squared_length(own, scale);
    longest = squares <= longest ? longest : squares;  // a NaN replaces it
    if (std::isnan(squares)) longest = std::numeric_limits<double>::infinity();
  }
  if (longest == 0.0) return;
  constexpr double kRoom = 1.01;  // covers the rounding errors of the norms
  const double unit = static_cast<double>(kExactLevels) / (kRoom * std::sqrt(longest));
  if (!(unit > 0.0) || !std::isfinite(unit)) {
    std::fill(total.begin(), total.end(), std::numeric_limits<double>::quiet_NaN());
    return;
  }
  for (double& scale : scales) scale *= unit;
  const auto taken = resized(memory.taken, batch.rows());
  std::fill(taken.begin(), taken.end(), std::uint8_t{1});
  cells.assign(total.size(), 0);
  program.make_cells(*memory.pass, scales, kExactLevels, resized(memory.lengths, batch.rows()));
  program.add_cells(*memory.pass, taken, cells);
  for (std::size_t i = 0; i < cells.size(); ++i) total[i] += static_cast<double>(cells[i]) / unit;
}

/// Adds gradient rows times their factors.
class PlainAdder {
 public:
  PlainAdder(std::span<const ParameterGroup> groups, const Factors& factors,
             std::vector<double>& sum)
      : groups_(groups),
        make_(factors),
        sum_(sum),
        norms_(groups.size()),
        factors_(groups.size()) {}

  void add(std::span<const float> row) {
    for (std::size_t g = 0; g < groups_.size(); ++g)
      norms_[g] = squared_norm_at_most(row.subspan(groups_[g].offset, groups_[g].size));
    make_(norms_, factors_);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (factors_[g] == 0.0) continue;  // 0 * infinity would be NaN
      const double factor = factors_[g];
      const std::span<const float> gradient = row.subspan(groups_[g].offset, groups_[g].size);
      const std::span<double> sum = std::span(sum_).subspan(groups_[g].offset);
      in_wide_registers([&] {
        for (std::size_t i = 0; i < gradient.size(); ++i)
          sum[i] += factor * static_cast<double>(gradient[i]);
      });
    }
  }

 private:
  std::span<const ParameterGroup> groups_;
  const Factors& make_;
  std::vector<double>& sum_;
  std::vector<double> norms_, factors_;
};

std::vector<double> sum_of_rows(const Program& program, const Dataset& data,
                                std::span<const std::uint32_t> batch,
                                std::span<const ParameterGroup> groups, const Factors& factors,
                                Executor& executor) {
  std::vector<double> total(program.parameter_count(), 0.0);
  std::vector<std::vector<double>> lanes(lanes_of(program, batch.size()));
  add_rows(program, data, batch, executor, [&](std::size_t lane) {
    lanes[lane].assign(total.size(), 0.0);
    return PlainAdder(groups, factors, lanes[lane]);
  });
  for (const std::vector<double>& lane : lanes) {
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += lane[i];
  }
  return total;
}

/// \param groups  the parameter groups; used only for a program that returns rows.
std::vector<double> plain_sum(const Program& program, const Dataset& data,
                              std::span<const std::uint32_t> batch,
                              std::span<const ParameterGroup> groups, const Factors& factors,
                              Executor& executor, std::size_t most_rows, SumMemory& memory) {
  const auto* exact = ability_of<ExactClipping>(program);
  if (exact == nullptr) return sum_of_rows(program, data, batch, groups, factors, executor);
  std::vector<double> total(program.parameter_count(), 0.0);
  std::vector<std::int64_t> cells;
  for_each_microbatch(*exact, data, batch, executor, most_rows, memory,
                      [&](const Batch& examples, SumMemory& used) {
                        add_pass(*exact, examples, factors, used, cells, total);
                      });
  return total;
}

/// The factors of a clip; also counts the unclipped examples, from several lanes at once.
class CountingFactors {
 public:
  explicit CountingFactors(const Clip& clip) : clip_(clip) {}

  Factors factors() {
    return [this](std::span<const double> squared_norms, std::span<double> factors) {
      balance_ += clip_factors(clip_, squared_norms, factors) ? 1 : -1;
    };
  }

  /// \param sum  the sum of the clipped gradients.
  /// \returns the sum; with a count share, the vector of joint_release.hpp: the slightly reduced
  ///   gradients, followed by the count.
  std::vector<float> beside_count(std::span<const double> sum) const {
    const double share = clip_.count_share == 0.0 ? 1.0 : gradient_share(clip_.count_share);
    std::vector<float> values;
    values.reserve(sum.size() + 1);
    for (const double value : sum) values.push_back(static_cast<float>(share * value));
    if (clip_.count_share == 0.0) return values;
    const auto balance = static_cast<double>(balance_.load());
    values.push_back(static_cast<float>(clip_.count_share * clip_.clip_norm * balance));
    return values;
  }

 private:
  const Clip& clip_;
  std::atomic<std::int64_t> balance_ = 0;  ///< The number of examples within the clip norm minus
                                           ///< the number of the others.
};

void check(const Clip& clip, const Program& program, const Dataset& data,
           std::span<const std::uint32_t> batch) {
  check_clip_norm(clip.clip_norm);
  check_batch(batch, data.rows());
  check_groups(clip, program);
}

}  // namespace

Bounded clipped_sum(const Program& program, const Dataset& data,
                    std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor,
                    PrivacyUnit unit) {
  check(clip, program, data, batch);
  CountingFactors counting(clip);
  std::vector<double> sum =
      sum_of_rows(program, data, batch, clip.groups, counting.factors(), executor);
  for (double& value : sum) value = static_cast<double>(static_cast<float>(value));
  return TrustBase::bounded(counting.beside_count(sum), clip.clip_norm, unit);
}

Bounded sum_for_no_noise(const Program& program, const Dataset& data,
                         std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor,
                         std::size_t most_rows, SumMemory* memory, PrivacyUnit unit) {
  check(clip, program, data, batch);
  CountingFactors counting(clip);
  SumMemory own;
  const std::vector<double> sum = plain_sum(program, data, batch, clip.groups, counting.factors(),
                                            executor, most_rows, memory != nullptr ? *memory : own);
  return TrustBase::bounded(counting.beside_count(sum), std::numeric_limits<double>::infinity(),
                            unit);
}

double mean_gradient_norm(const Program& program, const Dataset& data, Executor& executor) {
  if (data.rows() == 0) return 0.0;
  const Factors whole = [](std::span<const double>, std::span<double> factors) {
    std::fill(factors.begin(), factors.end(), 1.0);
  };
  const std::vector<ParameterGroup> all{{"all", 0, program.parameter_count()}};
  SumMemory memory;
  double squares = 0.0;
  for (const double value :
       plain_sum(program, data, all_rows(data.rows()), all, whole, executor, 0, memory))
    squares += value * value;
  return std::sqrt(squares) / static_cast<double>(data.rows());
}

namespace {

constexpr std::size_t kEvaluatedRows = 256;  // rows in a part

}  // namespace

std::size_t evaluation_parts(const Dataset& data) {
  return (data.rows() + kEvaluatedRows - 1) / kEvaluatedRows;
}

std::vector<Evaluation> evaluate_parts(const Program& program, const Dataset& data,
                                       std::size_t begin, std::size_t end, Executor& executor) {
  std::vector<Evaluation> parts(end - begin);
  executor.for_each_chunk(parts.size(), [&](std::size_t i) {
    const std::size_t first = (begin + i) * kEvaluatedRows;
    std::vector<std::uint32_t> rows(std::min(kEvaluatedRows, data.rows() - first));
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(first));
    Chunk scratch(data, rows.size());
    parts[i] = program.evaluate(scratch.gather(data, rows));
  });
  return parts;
}

Evaluation total_of(std::span<const Evaluation> parts) {
  Evaluation total;
  for (const Evaluation& part : parts) {
    total.loss += part.loss;
    total.correct += part.correct;
  }
  return total;
}

Evaluation evaluate(const Program& program, const Dataset& data, Executor& executor) {
  return total_of(evaluate_parts(program, data, 0, evaluation_parts(data), executor));
}

}  // namespace privgrad::core
