#include "privgrad/report/notebook_chart.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "chart.hpp"
#include "svg_chart.hpp"

namespace privgrad::report {

std::string notebook_chart(const nlohmann::json& chart) {
  const auto none = nlohmann::json::array();
  Chart made{.id = "",
             .title = chart.at("title"),
             .x = chart.at("x"),
             .y = chart.value("y", std::string()),
             .says = ""};
  for (const auto& one : chart.value("series", none)) {
    Series series{.name = one.at("name"), .points = {}};
    for (const auto& point : one.at("points")) series.points.push_back({point.at(0), point.at(1)});
    made.series.push_back(std::move(series));
  }
  for (const auto& row : chart.value("rows", none))
    made.rows.push_back({row.at(0), row.at(1), row.at(2), row.at(3)});
  return svg_chart(made, Place::notebook);
}

}  // namespace privgrad::report
