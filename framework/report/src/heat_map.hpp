// Tables with shaded cells for the results of a study whose arms vary along two axes.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace privgrad::report {

/// A value for each pair of a row and a column.
struct HeatMap {
  std::string caption;
  std::string row_axis, column_axis;
  std::vector<std::string> rows, columns;
  std::vector<std::vector<std::optional<double>>>
      values;  ///< [row][column]; nothing if not measured.
  bool higher_is_better = true;
};

/// A table with darker cells for better values. The shading is logarithmic if all values are
/// positive and the largest is more than ten times the smallest, so that one bad corner does not
/// make all other cells look alike. The best value is bold.
/// \returns "" if there are fewer than two values.
std::string html(const HeatMap& map);

}  // namespace privgrad::report
