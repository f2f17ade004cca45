// Tables with shaded cells for the results of a study whose arms vary along two axes.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
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
/// make all others look alike. The best value is bold.
/// \returns "" if there are fewer than two values.
std::string html(const HeatMap& map);

/// The grid of a study whose arms vary along two axes.
/// \param study  study.json.
/// \param source  its name, for errors.
/// \param mean_of  the mean of an arm by its name; nothing if it has none.
/// \returns nothing for a study with another number of axes. Arms outside the grid are left out.
/// \throws IoError if a member has another type.
std::optional<HeatMap> map_of_two_axes(
    const nlohmann::json& study, const std::string& source,
    const std::function<std::optional<double>(const std::string& arm)>& mean_of);

}  // namespace privgrad::report
