#include "heat_map.hpp"

#include <algorithm>
#include <cmath>

#include "digits.hpp"
#include "html.hpp"
#include "privgrad/error.hpp"
#include "record.hpp"

namespace privgrad::report {
namespace {

using Json = nlohmann::json;

constexpr double kLogarithmicFrom = 10.0;  // ratio of the largest to the smallest value

struct Scale {
  double low = 0.0, high = 0.0;
  bool logarithmic = false, higher_is_better = true;

  /// From 0, the worst, to 1, the best; 1 if all are the same.
  double goodness(double value) const {
    if (low == high) return 1.0;
    const auto of = [&](double x) { return logarithmic ? std::log(x) : x; };
    const double share = (of(value) - of(low)) / (of(high) - of(low));
    return higher_is_better ? share : 1.0 - share;
  }
};

std::vector<double> measured(const HeatMap& map) {
  std::vector<double> all;
  for (const auto& row : map.values) {
    for (const auto& value : row)
      if (value) all.push_back(*value);
  }
  return all;
}

std::string cell(std::optional<double> value, const Scale& scale) {
  if (!value) return "<td class=\"number\">-</td>";
  const double goodness = scale.goodness(*value);
  return "<td class=\"heat" + std::string(goodness == 1.0 ? " best" : "") +
         "\" style=\"--heat:" + core::short_number(goodness, 2) + "\">" + digits(value) + "</td>";
}

struct Axis {
  std::string key;  ///< The first of several keys that vary together.
  std::vector<std::string> labels;
};

std::vector<Axis> axes_of(const Json& study, const std::string& source) {
  std::vector<Axis> axes;
  for (const Json& entry : list(study, "axes", source)) {
    if (!entry.is_object())
      throw IoError(source + ": 'axes' holds something that is not an object");
    const std::vector<std::string> keys = texts(entry, "keys", source);
    Axis axis{.key = keys.empty() ? "" : keys.front(), .labels = texts(entry, "labels", source)};
    if (axis.labels.size() > 1) axes.push_back(std::move(axis));
  }
  return axes;
}

/// The position of an arm on an axis; nothing if it is not on it.
std::optional<std::size_t> place_of(const Json& arm, const Axis& axis, const std::string& source) {
  const auto label = text(members(arm, "labels", source), axis.key.c_str(), source);
  if (!label) return std::nullopt;
  const auto at = std::find(axis.labels.begin(), axis.labels.end(), *label);
  if (at == axis.labels.end()) return std::nullopt;
  return static_cast<std::size_t>(at - axis.labels.begin());
}

}  // namespace

std::optional<HeatMap> map_of_two_axes(
    const Json& study, const std::string& source,
    const std::function<std::optional<double>(const std::string& arm)>& mean_of) {
  const std::vector<Axis> axes = axes_of(study, source);
  const bool has_levels = study.contains("levels") && !study.at("levels").is_null();
  if (axes.size() != 2 || has_levels) return std::nullopt;
  HeatMap map;
  map.row_axis = axes[0].key;
  map.column_axis = axes[1].key;
  map.rows = axes[0].labels;
  map.columns = axes[1].labels;
  map.values.assign(map.rows.size(),
                    std::vector<std::optional<double>>(map.columns.size(), std::nullopt));
  for (const Json& arm : list(study, "arms", source)) {
    const auto row = place_of(arm, axes[0], source), column = place_of(arm, axes[1], source);
    const auto name = text(arm, "name", source);
    if (row && column && name) map.values[*row][*column] = mean_of(*name);
  }
  return map;
}

std::string html(const HeatMap& map) {
  const std::vector<double> all = measured(map);
  if (all.size() < 2) return "";
  const auto [low, high] = std::minmax_element(all.begin(), all.end());
  const Scale scale{.low = *low,
                    .high = *high,
                    .logarithmic = *low > 0.0 && *high > kLogarithmicFrom * *low,
                    .higher_is_better = map.higher_is_better};
  std::string out =
      "<div class=\"wide\" tabindex=\"0\"><table>\n<caption><span>" +
      escaped(map.caption + " Rows: " + map.row_axis + "; columns: " + map.column_axis + ".") +
      " The darker, the better" + (scale.logarithmic ? ", on a logarithmic scale" : "") +
      ".</span></caption>\n<thead><tr><th></th>";
  for (const std::string& column : map.columns)
    out += "<th scope=\"col\" class=\"number\">" + escaped(column) + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    out += "<tr><th scope=\"row\">" + escaped(map.rows[i]) + "</th>";
    for (const auto& value : map.values[i]) out += cell(value, scale);
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table></div>\n";
}

}  // namespace privgrad::report
