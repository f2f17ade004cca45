// The scales and schedules of a plan, kept so that a plan made again has the same bits everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace privgrad::core {

/// The file of a private folder that holds KeptNumbers::schedules_text().
inline constexpr const char* kKeptSchedules = "schedules";

/// The numbers of a plan whose last digits depend on the processor: scales that a calibration
/// found, and the values of schedules. `exp` and `pow` of the C library round differently where a
/// processor multiplies and adds in one instruction, and a search may end elsewhere.
///
/// The first plan of a run finds them. A plan that is made again is given these same numbers, so
/// that noise, charges and keys are the same bits on every processor. One thread at a time.
class KeptNumbers {
 public:
  /// For a plan that is made for the first time.
  KeptNumbers() = default;
  /// For a plan that is made again.
  /// \param scales     as `scales()` gave them; above 0 and finite.
  /// \param optimized  as `optimized()` gave them; finite.
  /// \param schedules  as `schedules_text()` gave them; "": they are computed, and the same but for
  ///   roundings.
  /// \throws ConfigError for numbers that are not such, IoError for such a text.
  explicit KeptNumbers(std::vector<double> scales, std::vector<double> optimized = {},
                       std::string_view schedules = {});

  /// The next scale of the plan: the kept one, or the one that `search` finds.
  /// \throws ConfigError if fewer were kept than the plan asks for.
  double scale(const std::function<double()>& search);
  /// The numbers of the aggregator (Aggregator::optimized()): the kept ones, or those that `search`
  /// finds; empty if it has none.
  const std::vector<double>& optimized(const std::function<std::vector<double>()>& search);
  /// The values of a schedule, as the run began with them.
  /// \param slot    "learning_rate", ...
  /// \param values  as the schedule computes them here: a first plan begins with these. They are
  ///   also returned where the run began with no such values, roundings aside; it is for the
  ///   caller to refuse them.
  std::vector<double> schedule(const std::string& slot, std::vector<double> values);

  /// Whether the plan is made again, perhaps on another processor.
  bool is_made_again() const noexcept { return is_made_again_; }
  /// The scales that the plan has asked for, in its order.
  const std::vector<double>& scales() const noexcept { return used_; }
  /// The aggregator's numbers; empty if it has none.
  const std::vector<double>& optimized() const noexcept { return optimized_; }
  std::string schedules_text() const;

 private:
  /// The schedule of a run, or of one of its participants, whose learning rates may differ.
  struct Schedule {
    std::string slot;
    std::uint64_t steps = 0;
    std::vector<double> distinct;  ///< One per step; a single value for a constant schedule.

    static Schedule of(const std::string& slot, const std::vector<double>& values);
    /// The largest relative difference of a value; infinite for another number of steps.
    double distance_to(const std::vector<double>& others) const;
    std::vector<double> values() const;
    static auto state(auto& self) { return std::tie(self.slot, self.steps, self.distinct); }
  };

  bool is_made_again_ = false;
  std::vector<double> kept_, used_;
  std::vector<double> optimized_;
  std::vector<Schedule> schedules_;  // kept, or found
};

}  // namespace privgrad::core
