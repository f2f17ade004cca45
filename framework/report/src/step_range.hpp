// Prints whole numbers as one value or a range, such as the steps that the runs of an arm made.
#pragma once

#include <string>
#include <vector>

namespace privgrad::report {

/// Whole numbers, as "12", or "11 to 12" where they differ.
/// \pre `values` is not empty.
std::string range_of(const std::vector<double>& values);

}  // namespace privgrad::report
