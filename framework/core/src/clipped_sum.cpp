#include "privgrad/core/clipped_sum.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "privgrad/error.hpp"
#include "trust_base.hpp"

namespace privgrad::core {
namespace {

/// Rows per chunk: enough for efficient matrix work, few enough that the rows of a large model fit
/// in memory. Depends on the model alone, so that results do not depend on the machine.
std::size_t rows_per_chunk(std::size_t parameters) {
  constexpr std::size_t kChunkFloats = std::size_t{4} << 20;  // 16 MiB of gradients
  return std::clamp<std::size_t>(kChunkFloats / parameters, 1, 64);
}

/// Chunks are dealt to a fixed number of lanes, each lane adds its chunks up in order: memory is
/// one sum per lane, and the order of every addition is fixed.
constexpr std::size_t kLanes = 8;

/// More than the norm of what 2^40 results below the normal range of float32, in sums of up to 2^40
/// of them, can be off by.
constexpr double kUnderflow = 0x1p-85;

/// Sum of squares in double with eight partial sums, so that the compiler can use vector registers.
double sum_of_squares(std::span<const float> row) {
  std::array<double, 8> partial{};
  std::size_t i = 0;
  for (; i + 8 <= row.size(); i += 8) {
    for (std::size_t j = 0; j < 8; ++j) {
      const double x = row[i + j];
      partial[j] += x * x;
    }
  }
  double total = 0.0;
  for (; i < row.size(); ++i) total += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  for (const double part : partial) total += part;
  return total;
}

void add_clipped(std::span<const float> row, double clip_norm, std::span<double> sum) {
  const double factor = clip_factor(row, clip_norm);
  if (factor == 0.0) return;  // 0 * infinity would be NaN
  for (std::size_t i = 0; i < row.size(); ++i) sum[i] += factor * static_cast<double>(row[i]);
}

/// Scratch of one task: the examples of a chunk.
struct Chunk {
  explicit Chunk(const Dataset& data, std::size_t rows)
      : features(rows * data.row_size()), targets(rows) {}

  Batch gather(const Dataset& data, std::span<const std::uint32_t> rows) {
    const std::span<float> some_features = std::span(features).first(rows.size() * data.row_size());
    const std::span<float> some_targets = std::span(targets).first(rows.size());
    data.gather(rows, some_features, some_targets);
    return {some_features, some_targets};
  }

  std::vector<float> features;
  std::vector<float> targets;
};

/// Marks each row, so that one that a backend forgets to write counts as zero instead of holding
/// the gradient of another example.
void poison(std::span<float> gradients, std::size_t parameters) {
  for (std::size_t end = parameters; end <= gradients.size(); end += parameters) {
    gradients[end - 1] = std::numeric_limits<float>::quiet_NaN();
  }
}

void check_batch(std::span<const std::uint32_t> batch, std::size_t rows) {
  std::vector<bool> seen(rows);
  for (const std::uint32_t row : batch) {
    if (row >= rows || seen[row]) {
      throw PluginError("the sampler broke its contract: row " + std::to_string(row) +
                        (row >= rows ? " does not exist" : " was drawn twice in one batch"));
    }
    seen[row] = true;
  }
}

}  // namespace

double clip_factor(std::span<const float> row, double bound) {
  const double squares = sum_of_squares(row);
  if (!std::isfinite(squares)) return 0.0;
  const double unit = std::numeric_limits<double>::epsilon();  // 2^-52: twice the unit roundoff
  const double norm_at_most =
      std::sqrt(squares) * (1.0 + (static_cast<double>(row.size()) + 8.0) * unit);
  return norm_at_most <= bound ? 1.0 : bound / norm_at_most;
}

double clip_factor_of_groups(std::span<const double> squared_norms, double bound) {
  const double squares = std::accumulate(squared_norms.begin(), squared_norms.end(), 0.0);
  if (!std::isfinite(squares)) return 0.0;
  const double unit = std::numeric_limits<double>::epsilon();
  const double norm_at_most =
      std::sqrt(squares) * (1.0 + (static_cast<double>(squared_norms.size()) + 8.0) * unit);
  const double room = bound - kUnderflow;
  if (!(room > 0.0)) return 0.0;
  return norm_at_most <= room ? 1.0 : room / norm_at_most;
}

Bounded clipped_sum(const Program& program, const Dataset& data,
                    std::span<const std::uint32_t> batch, double clip_norm, Executor& executor,
                    std::size_t most_rows, SumMemory* memory) {
  check_batch(batch, data.rows());
  if (const auto* fused = dynamic_cast<const FusedClipping*>(&program)) {
    SumMemory own;
    const auto flat = [&](std::span<const double> squared_norms, std::span<double> factors) {
      std::fill(factors.begin(), factors.end(), clip_factor_of_groups(squared_norms, clip_norm));
    };
    return TrustBase::bounded(fused_sum(*fused, program.parameter_count(), data, batch, flat,
                                        executor, most_rows, memory != nullptr ? *memory : own),
                              clip_norm, PrivacyUnit::example);
  }
  const std::size_t parameters = program.parameter_count();
  const std::size_t chunk_rows = rows_per_chunk(parameters);
  const std::size_t chunks = (batch.size() + chunk_rows - 1) / chunk_rows;
  const std::size_t lanes = std::min(kLanes, chunks);
  std::vector<std::vector<double>> sums(lanes);

  executor.for_each_chunk(lanes, [&](std::size_t lane) {
    std::vector<double>& sum = sums[lane];
    sum.assign(parameters, 0.0);
    Chunk scratch(data, chunk_rows);
    std::vector<float> gradients(chunk_rows * parameters);
    for (std::size_t chunk = lane; chunk < chunks; chunk += lanes) {
      const std::size_t begin = chunk * chunk_rows;
      const auto rows = batch.subspan(begin, std::min(chunk_rows, batch.size() - begin));
      poison(std::span(gradients).first(rows.size() * parameters), parameters);
      program.gradient_rows(scratch.gather(data, rows),
                            std::span(gradients).first(rows.size() * parameters));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        add_clipped(std::span<const float>(gradients).subspan(i * parameters, parameters),
                    clip_norm, sum);
      }
    }
  });

  std::vector<double> total = lanes > 0 ? std::move(sums[0]) : std::vector<double>(parameters, 0.0);
  for (std::size_t lane = 1; lane < lanes; ++lane) {
    for (std::size_t i = 0; i < parameters; ++i) total[i] += sums[lane][i];
  }
  return TrustBase::bounded(std::move(total), clip_norm, PrivacyUnit::example);
}

Evaluation evaluate(const Program& program, const Dataset& data, Executor& executor) {
  constexpr std::size_t kRows = 256;
  const std::size_t chunks = (data.rows() + kRows - 1) / kRows;
  std::vector<Evaluation> parts(chunks);
  executor.for_each_chunk(chunks, [&](std::size_t chunk) {
    const std::size_t begin = chunk * kRows;
    std::vector<std::uint32_t> rows(std::min(kRows, data.rows() - begin));
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(begin));
    Chunk scratch(data, rows.size());
    parts[chunk] = program.evaluate(scratch.gather(data, rows));
  });
  Evaluation total;
  for (const Evaluation& part : parts) {
    total.loss += part.loss;
    total.correct += part.correct;
  }
  return total;
}

}  // namespace privgrad::core
