// An axis of a chart: its range, its ticks, and the places of values on it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace privgrad::report {

class Axis {
 public:
  struct Tick {
    double value = 0.0;
    std::string label;
  };

  /// \param low, high    the range; equal ends are moved apart.
  /// \param logarithmic  has an effect only if `low` is positive and not subnormal; otherwise the
  ///   axis is linear.
  /// \param most_ticks  the approximate number of ticks that fit.
  Axis(double low, double high, bool logarithmic, std::size_t most_ticks);

  /// Puts ticks at these values, if they are in the range, instead of at round numbers.
  void tick_at(const std::vector<double>& values);

  /// Puts ticks with names at 0, 1, ...
  void tick_by_name(const std::vector<std::string>& names);

  /// Returns the place of a value on the axis, from 0 (low end) to 1 (high end); a value outside
  /// the range has the place of the nearer end.
  double share(double value) const;

  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  void tick_linearly(std::size_t most);
  void tick_logarithmically(std::size_t most);

  double low_, high_;
  bool logarithmic_;
  std::vector<Tick> ticks_;
};

}  // namespace privgrad::report
