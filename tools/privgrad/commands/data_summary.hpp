// Summary statistics of a split's features and targets, for `privgrad data describe`.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "privgrad/dataset.hpp"

namespace privgrad::tool {

/// The running minimum, maximum and mean of a stream of numbers.
struct Spread {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double sum = 0.0;
  std::uint64_t count = 0;

  void add(float value);
  double mean() const { return sum / static_cast<double>(count); }
};

/// A summary of the examples of a split. It is as private as the examples themselves.
struct DataSummary {
  std::uint64_t rows = 0;
  Spread features;
  Spread targets;
  std::vector<std::uint64_t> class_counts;  ///< [classes]; empty if the targets are real numbers.
};

/// Reads the examples once, in blocks, so that only one block of byte data is expanded in memory.
DataSummary summarise(const Dataset& data);

/// \returns the number of rows that also occur in `others`, with features and target equal bit for
///   bit.
std::uint64_t rows_in_common(const Dataset& rows, const Dataset& others);

}  // namespace privgrad::tool
