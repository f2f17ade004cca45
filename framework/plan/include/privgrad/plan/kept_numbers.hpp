#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace privgrad::core {

/// The file of a private folder that holds KeptNumbers::schedules_text().
inline constexpr const char* kKeptSchedules = "schedules";

/// The numbers of a plan whose last digits depend on the processor: scales that a calibration found,
/// and the values of schedules. `exp` and `pow` of the C library round differently where a processor
/// multiplies and adds in one instruction, and a search may end elsewhere.
///
/// The first plan of a run finds them. Whoever makes the plan again is given what was found, so that
/// noise, charges and keys are the same bits on every processor. One thread at a time.
class KeptNumbers {
 public:
  /// Of a plan that is made for the first time.
  KeptNumbers() = default;
  /// Of a plan that is made again.
  /// \param scales     as `scales()` gave them; above 0 and finite.
  /// \param schedules  as `schedules_text()` gave them; "": they are computed, and the same but for
  ///   roundings.
  /// \throws ConfigError if they are not such.
  explicit KeptNumbers(std::vector<double> scales, std::string_view schedules = {});

  /// The next scale of the plan: what was kept, or what `search` finds.
  /// \throws ConfigError if fewer were kept than the plan asks for.
  double scale(const std::function<double()>& search);
  /// The values of a schedule, as the run began with them.
  /// \param slot    "learning_rate", ...
  /// \param values  as the schedule computes them here: of a first plan they are what it begins with.
  ///   Given back, too, where the run began with none of these, roundings aside; it is for the caller
  ///   to refuse them.
  std::vector<double> schedule(const std::string& slot, std::vector<double> values);

  /// Those that the plan has asked for, in its order.
  const std::vector<double>& scales() const noexcept { return used_; }
  std::string schedules_text() const;

 private:
  /// Of a run, or of one of those who take part in it: they may differ in their learning rates.
  struct Schedule {
    std::string slot;
    std::uint64_t steps = 0;
    std::vector<double> distinct;  ///< One per step; of a constant schedule, its one value.

    static Schedule of(const std::string& slot, const std::vector<double>& values);
    /// The largest relative difference of a value; infinite for another number of steps.
    double distance_to(const std::vector<double>& others) const;
    std::vector<double> values() const;
    static auto state(auto& self) { return std::tie(self.slot, self.steps, self.distinct); }
  };

  bool is_made_again_ = false;
  std::vector<double> kept_, used_;
  std::vector<Schedule> schedules_;  // kept, or found
};

}  // namespace privgrad::core
