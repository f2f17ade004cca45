// The loop over per-example gradient rows, shared by all sums of rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/trust/clip_factors.hpp"

namespace privgrad::core {

/// Returns the number of rows in a chunk, large enough for efficient matrix products, and small
/// enough that the rows of a large model fit in memory. It depends only on the model, so results do
/// not depend on the machine.
std::size_t rows_per_chunk(std::size_t parameters);

/// Returns the number of lanes among which the rows of a batch are divided. It is fixed, and each
/// lane adds its chunks in order, so the order of every addition is fixed. Each lane needs the
/// memory of one sum.
std::size_t lanes_of(const Program& program, std::size_t rows);

/// \throws PluginError for a row number that is out of range or repeated.
void check_batch(std::span<const std::uint32_t> batch, std::size_t rows);

/// Checks that every parameter is in one group, and that the program has as many norms as groups.
/// \throws PluginError if not.
void check_groups(const Clip& clip, const Program& program);

/// Returns the part of an example's gradient in one group.
inline std::span<const float> part(const Clip& clip, std::span<const float> row,
                                   std::size_t group) {
  return row.subspan(clip.groups[group].offset, clip.groups[group].size);
}

/// \param out  [groups]: at least the squared norm of each part.
void squared_norms(const Clip& clip, std::span<const float> row, std::span<double> out);

/// Scratch memory of one task: the examples of a chunk.
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

/// Fills rows with NaN: a row that a backend leaves unwritten, wholly or in part, then counts as
/// zero instead of containing another example's numbers.
void poison(std::span<float> gradients);

/// The gradients of a chunk's examples, a row each.
class GradientRows {
 public:
  GradientRows(std::size_t rows, std::size_t parameters)
      : parameters_(parameters),
        size_(rows * parameters),
        gradients_(std::make_unique_for_overwrite<float[]>(size_)) {}

  /// \param examples  at most as many as there are rows. The rows are poisoned first.
  void compute(const Program& program, const Batch& examples);

  std::span<const float> row(std::size_t i) const {
    return std::span<const float>(gradients_.get(), size_).subspan(i * parameters_, parameters_);
  }

 private:
  std::size_t parameters_, size_;
  std::unique_ptr<float[]> gradients_;  // not cleared: compute() poisons them
};

/// Makes the adder of each lane, in parallel, and passes it the gradients of the lane's examples,
/// one row at a time.
template <class MakeAdder>
void add_rows(const Program& program, const Dataset& data, std::span<const std::uint32_t> batch,
              Executor& executor, const MakeAdder& adder_of_lane) {
  const std::size_t parameters = program.parameter_count();
  const std::size_t chunk_rows = rows_per_chunk(parameters);
  const std::size_t chunks = (batch.size() + chunk_rows - 1) / chunk_rows;
  const std::size_t lanes = lanes_of(program, batch.size());
  executor.for_each_chunk(lanes, [&](std::size_t lane) {
    auto adder = adder_of_lane(lane);
    Chunk scratch(data, std::min(chunk_rows, batch.size()));
    GradientRows gradients(std::min(chunk_rows, batch.size()), parameters);
    for (std::size_t chunk = lane; chunk < chunks; chunk += lanes) {
      const std::size_t begin = chunk * chunk_rows;
      const auto rows = batch.subspan(begin, std::min(chunk_rows, batch.size() - begin));
      gradients.compute(program, scratch.gather(data, rows));
      for (std::size_t i = 0; i < rows.size(); ++i) adder.add(gradients.row(i));
    }
  });
}

}  // namespace privgrad::core
