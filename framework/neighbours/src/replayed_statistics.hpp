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

/// Transforms of one world learn what a recorded run released; on the way, what the world's rows add to
/// each statistic is made again, one row at a time, by code of its own.
class ReplayedStatistics final : public Teacher {
 public:
  /// \param plan, first  outlive this.
  /// \param last  the row that differs.
  ReplayedStatistics(const Plan& plan, const RecordedRun& first, std::uint32_t last)
      : plan_(plan), first_(first), last_(last) {}

  /// \throws PrivacyError if the recorded run did not release it.
  void teach(std::size_t number, Transform& transform, const Dataset& train) override;

  /// Counts the world's rows, as the plan's counts ask for.
  void count(const Dataset& train);

  /// In cells, of a world.
  struct Cells {
    std::vector<std::int64_t> all;   ///< Of all rows.
    std::vector<std::int64_t> last;  ///< Of the row that differs; zeros where it was removed.
  };
  /// By what it is of, and the number of the transform.
  using Name = std::pair<StatisticOf, std::size_t>;
  const std::map<Name, Cells>& cells() const { return cells_; }

 private:
  const Plan& plan_;
  const RecordedRun& first_;
  std::uint32_t last_;
  std::map<Name, Cells> cells_;
};

/// What a recorded run divided its later means by: the number of rows that it released, or the public
/// one.
double divisor_of(const Plan& plan, const RecordedRun& run);

/// What a recorded run calls its release.
ReleaseName name_of(const PlannedStatistic& statistic);

/// What these cells are released as.
/// \param run_key  of a run whose keys do not change.
std::vector<float> release_again(const PlannedStatistic& statistic, std::vector<std::int64_t> cells,
                                 const RandomKey& run_key, double divisor);

/// \returns what is wrong with the statistics that two runs released, of which the second has other
///   contents in one row; nothing if both are what the rows, the noise and the divisor make.
std::optional<std::string> difference_of_statistics(const Plan& plan, const RandomKey& run_key,
                                                    const ReplayedStatistics& here,
                                                    const ReplayedStatistics& there,
                                                    const RecordedRun& first,
                                                    const RecordedRun& other);

}  // namespace privgrad::core
