// Prints integers as one value or a range, such as the numbers of steps in the runs of an arm.
#pragma once

#include <string>
#include <vector>

namespace privgrad::report {

/// Returns integers as "12", or as "11 to 12" if they differ.
/// \pre `values` is not empty.
std::string range_of(const std::vector<double>& values);

}  // namespace privgrad::report
