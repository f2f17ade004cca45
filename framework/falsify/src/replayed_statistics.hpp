// Recomputes the releases before the first step (counts and statistics), and compares two runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/data/run_data.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/plan/setting.hpp"
#include "privgrad/trust/random_key.hpp"
#include "recorded_run.hpp"

namespace privgrad::core {

/// Teaches the transforms of one world with the releases of a recorded run. Also recomputes the
/// contributions of the world's rows to each statistic, row by row, with separate code.
class ReplayedStatistics final : public Teacher {
 public:
  /// \param plan, first outlive this.
  /// \param last  the differing row.
  ReplayedStatistics(const Plan& plan, const RecordedRun& first, std::uint32_t last)
      : plan_(plan), first_(first), last_(last) {}

  /// \throws PrivacyError if the recorded run did not make this release.
  void teach(std::size_t number, Transform& transform, const Dataset& train) override;

  /// Recomputes the world's contributions to the plan's counts of rows and classes.
  void count(const Dataset& train);

  /// The sums of a world, in cells.
  struct Cells {
    std::vector<std::int64_t> all;  ///< The sum over all rows.
    /// The differing row's contribution; zeros if the row was removed.
    std::vector<std::int64_t> last;
  };
  /// The kind of a statistic, and the number of the transform.
  using Name = std::pair<StatisticOf, std::size_t>;
  const std::map<Name, Cells>& cells() const { return cells_; }

 private:
  const Plan& plan_;
  const RecordedRun& first_;
  std::uint32_t last_;
  std::map<Name, Cells> cells_;
};

/// The divisor of a recorded run's later means: the released or the public number of rows.
double divisor_of(std::uint64_t dataset_size, const RecordedRun& run);

/// The class weights that follow from a recorded run's class counts; empty if there are none.
std::vector<double> class_weights_of(const Plan& plan, const RecordedRun& run);

/// The name of the statistic's release in a recorded run.
ReleaseName name_of(const PlannedStatistic& statistic);

/// Recomputes a statistic's release from the sums in `cells`.
/// \param run_key  the key of the run, which has a fixed seed.
std::vector<float> release_again(const PlannedStatistic& statistic, std::vector<std::int64_t> cells,
                                 const RandomKey& run_key, double divisor);

/// \returns the error in the statistics that two runs with different last rows released; nothing if
///   both runs' statistics follow from the rows, the noise and the divisor.
std::optional<std::string> difference_of_statistics(
    const PlanNumbers& plan, const RandomKey& run_key, const ReplayedStatistics& here,
    const ReplayedStatistics& there, const RecordedRun& first, const RecordedRun& other);

}  // namespace privgrad::core
