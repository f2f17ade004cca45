#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "privgrad/pipeline/components.hpp"
#include "privgrad/pipeline/trainer.hpp"

namespace privgrad::core {

/// Makes the releases of a plan's independent steps again, from parts that are made apart from each
/// other: what the mechanism does, written a second time.
class Replay {
 public:
  /// Cells, and in all of its coordinates their squared length.
  struct Contribution {
    std::vector<std::int64_t> cells;
    bool within_bound = true;
  };

  /// \param key  of the run. \param plan  outlives this.
  Replay(const Plan& plan, const RandomKey& key, Executor& executor);

  /// Goes on with these parameters, and forgets what it knew of the rows.
  void load(const std::vector<float>& parameters);

  /// What one row adds to the sum, by a batch of that row alone. Kept until load().
  const Contribution& of_row(std::uint64_t step, const Dataset& data, std::uint32_t row);

  /// What was summed with other rows cannot be in this: the batch's own cells, their noise, the
  /// plan's divisor.
  /// \param sum  in cells, [parameters].
  std::vector<float> release(std::uint64_t step, std::vector<std::int64_t> sum) const;

  std::size_t parameters() const { return program_->parameter_count(); }
  /// Standard deviation of the noise in each released coordinate.
  double noise_stddev(std::uint64_t step) const;
  double cells_per_clip_norm() const { return static_cast<double>(levels_); }

 private:
  Contribution exact_cells(const ExactClipping& program, const Batch& one, const Clip& clip) const;
  Contribution row_cells(const Batch& one, const Clip& clip) const;

  const Plan& plan_;
  Components made_;
  RandomKey noise_key_, augmentation_key_;
  std::uint64_t levels_;
  ComponentPtr<Backend> backend_;
  std::unique_ptr<Program> program_;
  std::map<std::uint32_t, Contribution> known_;
};

}  // namespace privgrad::core
