// Stores the scales and schedules of a plan, so that a repeated plan has the same bits everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace privgrad::core {

/// The file of a private folder that contains KeptNumbers::schedules_text().
inline constexpr const char* kKeptSchedules = "schedules";

/// The numbers of a plan whose last digits depend on the processor: the scales that a calibration
/// found, and the values of schedules. The C library's `exp` and `pow` round differently on
/// processors that multiply and add in one instruction, and a search may then end at a different
/// number.
///
/// The first plan of a run computes these numbers. A repeated plan receives the same numbers, so
/// that noise, charges and keys have the same bits on every processor. One thread at a time.
class KeptNumbers {
 public:
  /// For a first plan.
  KeptNumbers() = default;
  /// For a repeated plan.
  /// \param scales  the value returned by `scales()`; above 0 and finite.
  /// \param optimized  the value returned by `optimized()`; finite.
  /// \param schedules  the value returned by `schedules_text()`; "": they are computed again,
  ///   possibly with different rounding errors.
  /// \throws ConfigError for invalid numbers, IoError for an invalid text.
  explicit KeptNumbers(std::vector<double> scales, std::vector<double> optimized = {},
                       std::string_view schedules = {});

  /// The next scale of the plan: the stored scale, or the result of `search`.
  /// \throws ConfigError if fewer scales were stored than the plan requests.
  double scale(const std::function<double()>& search);
  /// The numbers of the aggregator (Aggregator::optimized()): the stored numbers, or the result of
  /// `search`; empty if the aggregator optimises no numbers.
  const std::vector<double>& optimized(const std::function<std::vector<double>()>& search);
  /// The values of one schedule, as they were when the run began.
  /// \param slot  "learning_rate", ...
  /// \param values  the values that the schedule computes on this machine.
  /// \returns the run's stored values. In a first plan, or if the two differ by more than rounding
  ///   errors, returns `values`; the caller must refuse a difference.
  std::vector<double> schedule(const std::string& slot, std::vector<double> values);

  /// Whether this is a repeated plan, perhaps on another processor.
  bool is_made_again() const noexcept { return is_made_again_; }
  const std::vector<double>& scales() const noexcept { return used_; }
  /// The aggregator's numbers; empty if it has none.
  const std::vector<double>& optimized() const noexcept { return optimized_; }
  std::string schedules_text() const;

 private:
  /// The values of one schedule. Server and clients may have different learning rates.
  struct Schedule {
    std::string slot;
    std::uint64_t steps = 0;
    std::vector<double> distinct;  ///< One per step; a single value for a constant schedule.

    static Schedule of(const std::string& slot, const std::vector<double>& values);
    /// The largest relative difference of a value; infinite for a different number of steps.
    double distance_to(const std::vector<double>& others) const;
    std::vector<double> values() const;
    static auto state(auto& self) { return std::tie(self.slot, self.steps, self.distinct); }
  };

  bool is_made_again_ = false;
  std::vector<double> kept_, used_;
  std::vector<double> optimized_;
  std::vector<Schedule> schedules_;  // the stored or computed schedules
};

}  // namespace privgrad::core
