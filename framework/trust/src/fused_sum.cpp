#include "privgrad/trust/fused_sum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace privgrad::core {
namespace {

/// Rows that one task copies.
constexpr std::size_t kGatherRows = 32;

std::size_t rows_of_a_pass(const FusedClipping& program, std::size_t rows, std::size_t most_rows) {
  const std::size_t chunk = program.chunk_rows();
  const std::size_t wanted = most_rows == 0 ? program.pass_rows() : most_rows;
  return std::min(rows, std::max<std::size_t>(wanted / chunk, 1) * chunk);
}

Batch gather(const Dataset& data, std::span<const std::uint32_t> rows, Executor& executor,
             SumMemory& memory) {
  const std::size_t size = data.row_size();
  const std::span<float> features = std::span(memory.features).first(rows.size() * size);
  const std::span<float> targets = std::span(memory.targets).first(rows.size());
  executor.for_each_chunk((rows.size() + kGatherRows - 1) / kGatherRows, [&](std::size_t i) {
    const std::size_t first = i * kGatherRows;
    const std::size_t count = std::min(kGatherRows, rows.size() - first);
    data.gather(rows.subspan(first, count), features.subspan(first * size, count * size),
                targets.subspan(first, count));
  });
  return {features, targets};
}

/// The largest float that is no larger. A finite one: factors that are too large to be one are
/// those of gradients too small to matter.
float rounded_down(double factor) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (factor >= static_cast<double>(kLargest)) return kLargest;
  const auto rounded = static_cast<float>(factor);
  return static_cast<double>(rounded) > factor ? std::nextafter(rounded, 0.0f) : rounded;
}

void make_factors(const ClippingRule& rule, std::size_t groups,
                  std::span<const double> squared_norms, std::span<float> factors) {
  std::vector<double> exact(groups);
  for (std::size_t first = 0; first < factors.size(); first += groups) {
    const auto norms = squared_norms.subspan(first, groups);
    const bool finite =
        std::all_of(norms.begin(), norms.end(), [](double norm) { return std::isfinite(norm); });
    std::fill(exact.begin(), exact.end(), 0.0);
    if (finite) rule(norms, exact);
    std::transform(exact.begin(), exact.end(), factors.begin() + static_cast<std::ptrdiff_t>(first),
                   rounded_down);
  }
}

}  // namespace

std::vector<float> fused_sum(const FusedClipping& program, std::size_t parameters,
                             const Dataset& data, std::span<const std::uint32_t> batch,
                             const ClippingRule& rule, Executor& executor, std::size_t most_rows,
                             SumMemory& memory) {
  std::vector<float> sum(parameters, 0.0f);
  const std::size_t groups = program.groups();
  const std::size_t pass_rows = rows_of_a_pass(program, batch.size(), most_rows);
  if (pass_rows > memory.pass_rows) {
    memory.pass.reset();
    memory.pass = program.make_pass(pass_rows);
    memory.pass_rows = pass_rows;
    memory.features.resize(pass_rows * data.row_size());
    memory.targets.resize(pass_rows);
  }
  std::vector<double> squared_norms(pass_rows * groups);
  std::vector<float> factors(pass_rows * groups);
  for (std::size_t first = 0; first < batch.size(); first += pass_rows) {
    const auto rows = batch.subspan(first, std::min(pass_rows, batch.size() - first));
    const Batch examples = gather(data, rows, executor, memory);
    const auto norms = std::span(squared_norms).first(rows.size() * groups);
    const auto scales = std::span(factors).first(rows.size() * groups);
    // What a program forgets to write counts as not finite.
    std::fill(norms.begin(), norms.end(), std::numeric_limits<double>::quiet_NaN());
    program.backward(examples, *memory.pass, norms);
    make_factors(rule, groups, norms, scales);
    program.add_scaled(*memory.pass, scales, sum);
  }
  return sum;
}

}  // namespace privgrad::core
