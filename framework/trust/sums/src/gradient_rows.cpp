#include "gradient_rows.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "privgrad/error.hpp"
#include "privgrad/trust/program_around.hpp"

namespace privgrad::core {

std::size_t rows_per_chunk(std::size_t parameters) {
  constexpr std::size_t kChunkFloats = std::size_t{4} << 20;  // 16 MiB of gradients
  return std::clamp<std::size_t>(kChunkFloats / parameters, 1, 64);
}

std::size_t lanes_of(const Program& program, std::size_t rows) {
  constexpr std::size_t kLanes = 8;
  const std::size_t chunk_rows = rows_per_chunk(program.parameter_count());
  return std::min(kLanes, (rows + chunk_rows - 1) / chunk_rows);
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

void check_groups(const Clip& clip, const Program& program) {
  std::size_t end = 0;
  for (const ParameterGroup& group : clip.groups) {
    if (group.offset != end)
      throw PluginError("groups of parameters leave a gap before " + group.name);
    end += group.size;
  }
  const auto* exact = ability_of<ExactClipping>(program);
  const std::size_t groups = exact == nullptr ? clip.groups.size() : exact->groups();
  if (end == program.parameter_count() && groups == clip.groups.size()) return;
  throw PluginError("the program has " + std::to_string(program.parameter_count()) +
                    " parameters in " + std::to_string(groups) + " groups, the network has " +
                    std::to_string(end) + " in " + std::to_string(clip.groups.size()));
}

void squared_norms(const Clip& clip, std::span<const float> row, std::span<double> out) {
  for (std::size_t group = 0; group < out.size(); ++group) {
    out[group] = squared_norm_at_most(part(clip, row, group));
  }
}

void poison(std::span<float> gradients) {
  std::fill(gradients.begin(), gradients.end(), std::numeric_limits<float>::quiet_NaN());
}

void GradientRows::compute(const Program& program, const Batch& examples) {
  const auto rows = std::span(gradients_.get(), size_).first(examples.rows() * parameters_);
  poison(rows);
  program.gradient_rows(examples, rows);
}

}  // namespace privgrad::core
