// Answers for epsilon or delta with certified intervals: refines the grid until they are narrow.
#pragma once

#include <string>
#include <vector>

#include "scout.hpp"

namespace pld {

/// A certified interval: lower <= true value <= upper.
struct Interval {
  double lower = 0.0, upper = 0.0;
  std::string note;
};

/// Answers a question about the composition of all steps, in each of the given directions; the
/// larger answer counts. Refines the grid until the interval is no wider than `relative_width`
/// times its upper end (ten times as wide if delta is requested, because ln(delta) changes about
/// ten times as fast as epsilon), or until more points are not allowed (`most_points`, or the
/// limits on work) or do not help, in which case the note says so.
///
/// A single release needs no grid; its interval covers rounding and the gap between the two pairs.
///
/// \param directions  each a list of steps, not empty.
/// \throws NumericError if a computation fails.
Interval answer(const std::vector<std::vector<Step>>& directions, const Question& question,
                double relative_width, double most_points);

}  // namespace pld
