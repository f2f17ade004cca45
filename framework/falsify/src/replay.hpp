// A second implementation of steps, which recomputes a run's releases from separate parts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "privgrad/plan/components.hpp"
#include "privgrad/train/trainer.hpp"
#include "replayed_sums.hpp"

namespace privgrad::core {

/// The contribution of one example to the sums of a step, from a batch of only that example.
struct Contribution {
  /// [parameters] for each part that the step releases; with an adaptive clip norm, the count
  /// follows as an additional element.
  std::vector<std::vector<std::int64_t>> cells;
  /// Whether all coordinates together are within the bound, in integers.
  bool within_bound = true;
};

/// Recomputes the releases of an owner's steps from independently made parts: a second
/// implementation of trainer, sums and mechanisms. Steps must come in order.
class Replay {
 public:
  /// \param plan  the owner's plan.
  /// \param key  the owner's key. All arguments outlive this.
  /// \param program  if null, the plan's own program is used.
  /// \param class_weights  the weights for the plan's own program, from class_weights_of().
  Replay(const Plan& plan, const RandomKey& key, Executor& executor,
         std::unique_ptr<Program> program, const std::vector<double>& class_weights);

  /// For noise that follows the public test rows: adapts the noise of `step` to `model`.
  void follow_test_rows(std::uint64_t step, std::span<const float> model, const Dataset& test);
  /// For noise that follows releases about the private rows: adapts the noise to the next release.
  void follow(double measured);

  /// Moves to a step, and drops the contributions of the previous step.
  void begin_step(std::uint64_t step, std::span<const float> model, double clip_norm);
  /// A row's contribution, kept until begin_step().
  const Contribution& of_row(const Dataset& data, std::uint32_t row);

  /// \param sums  the contributions of one world (one of the two runs' data) to the step, in cells,
  ///   as in Contribution::cells.
  /// \param past  the past sums of the same world.
  /// \param noised  if false: the result of the sums without noise, in double.
  std::vector<Replayed> release(std::vector<std::vector<std::int64_t>> sums, ReplayedSums& past,
                                bool noised) const;

  /// The number of parts that the step releases.
  std::size_t parts() const;
  /// The number of elements in each part.
  std::size_t elements() const;
  /// The standard deviation of independent noise in each released coordinate.
  double noise_stddev() const;
  /// The adaptive clip norm that follows from a release of the step.
  double next_clip_norm(std::span<const float> released) const;

  /// Derives the scaling of coordinates for later steps from a release of the step, if the clipping
  /// scales coordinates.
  void learn(const Released& release);

  /// A release outside the steps: the sums of `width` numbers over examples.
  struct Beside {
    std::string_view purpose;  ///< The purpose (RandomKey::derive()) of the noise's key.
    std::uint64_t number = 0;  ///< The number of the release.
    std::size_t width = 0;     ///< Numbers per example.
    double bound = 0.0, multiplier = 0.0, divisor = 0.0;
  };
  /// \param rows  [examples, width].
  std::vector<float> release_beside(const Beside& what, std::span<const float> rows) const;
  std::vector<double> losses(std::span<const float> model, const Dataset& data,
                             std::span<const std::uint32_t> rows);
  /// Returns 1/2 for each row that is classified correctly, and -1/2 for every other row.
  std::vector<float> halves(std::span<const float> model, const Dataset& data,
                            std::span<const std::uint32_t> rows);

 private:
  Clip clip() const;
  Contribution contribution(const Batch& one) const;
  std::vector<std::int64_t> exact_cells(const ExactClipping& program, const Batch& one) const;
  std::vector<std::int64_t> row_cells(const Program& program, const Batch& one) const;
  void scale(std::span<float> row) const;
  void add_differences(const Batch& one, Contribution& made) const;
  std::vector<float> release_once(std::vector<std::int64_t> sum) const;
  void change_noise(std::uint64_t step);

  const Plan& plan_;
  Components made_;
  RandomKey key_, noise_key_, augmentation_key_;
  Executor& executor_;
  ComponentPtr<Backend> backend_;
  std::unique_ptr<Program> program_, anchor_, last_anchor_;
  bool has_anchor_ = false;
  ComponentPtr<Schedule> noise_rule_;  // adapts the noise
  std::vector<double> multipliers_, measured_;
  double multiplier_ = 0.0;
  std::uint64_t step_ = 0;
  double clip_norm_ = 0.0;
  std::map<std::uint32_t, Contribution> known_;
};

}  // namespace privgrad::core
