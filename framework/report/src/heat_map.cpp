#include "heat_map.hpp"

#include <algorithm>
#include <cmath>

#include "digits.hpp"
#include "html.hpp"

namespace privgrad::report {
namespace {

constexpr double kLogarithmicFrom = 10.0;  // ratio of the largest to the smallest value

struct Scale {
  double low = 0.0, high = 0.0;
  bool logarithmic = false, higher_is_better = true;

  /// Maps a value to a number from 0 (the worst value) to 1 (the best); 1 if all values are equal.
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

}  // namespace

std::string html(const HeatMap& map) {
  const std::vector<double> all = measured(map);
  if (all.size() < 2) return "";
  const auto [low, high] = std::ranges::minmax_element(all);
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
