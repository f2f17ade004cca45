// Prints integers as one value or a range, such as the numbers of steps in the runs of an arm.
#pragma once

#include <string>
#include <vector>

namespace privgrad::report {

/// Integers, as "12", or "11 to 12" if they differ.
/// \pre `values` is not empty.
std::string range_of(const std::vector<double>& values);

}  // namespace privgrad::report
