// The exponential moving average of the parameters, which a run may keep as its final model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "privgrad/train/run_feature.hpp"

namespace privgrad::core {

/// The exponential moving average of the parameters over the steps of a run, or the rounds of a
/// federated run:
///
///     a_0 = w_0,   a_t = d_t a_{t-1} + (1 - d_t) w_t,   d_t = min(decay, (1 + t) / (10 + t)),
///
/// with w_t the parameters and a_t the average after t steps. At first d_t is small, so that the
/// first parameters are soon forgotten (as in De et al. 2022, section 3.4). Computed in double,
/// coordinate by coordinate: the same bits on any number of threads and any processor.
///
/// Privacy: post-processing of the run's releases; costs nothing.
class MovingAverage final : public RunFeature {
 public:
  /// \param decay  in (0, 1).
  /// \param is_kept  whether the run keeps the average as its final model.
  /// \param parameters  the number of parameters.
  MovingAverage(double decay, bool is_kept, std::size_t parameters)
      : decay_(decay), is_kept_(is_kept), values_(parameters) {}

  void begin(RunModel& model) override;
  bool after_step(std::uint64_t steps, RunModel& model) override;
  /// If the average is kept: reports the last parameters, and then loads the average.
  void choose_model(RunModel& model) override;

  void save(StateWriter& out) const override;
  void restore(StateReader& in) override;
  /// Adds the metrics of the average. Loads the average to measure it, and then restores the model.
  void add_to_metrics(MetricsLine& line, std::uint64_t steps, RunModel& model) const override;
  void add_to_summary(Summary& summary) const override;

 private:
  std::vector<float> parameters() const;

  double decay_;
  bool is_kept_;
  std::uint64_t steps_ = 0;
  std::vector<double> values_;
};

}  // namespace privgrad::core
