#include "chart.hpp"

#include <algorithm>

#include "html.hpp"
#include "privgrad/record/short_numbers.hpp"

namespace privgrad::report {
namespace {

using Json = nlohmann::json;
using core::short_number;

Json series_json(const Series& series) {
  Json points = Json::array();
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    Json point{series.points[i].x, series.points[i].y};
    if (!series.bands.empty()) {
      point.push_back(series.bands[i].low);
      point.push_back(series.bands[i].high);
    }
    points.push_back(std::move(point));
  }
  return {{"name", series.name},
          {"points", std::move(points)},
          {"stepped", series.stepped},
          {"markers", series.markers}};
}

/// A description of the chart for readers who cannot see it.
std::string in_words(const Chart& chart) {
  std::string words = chart.title + ".";
  for (const Series& series : chart.series) {
    if (series.points.empty()) continue;
    const auto [low, high] =
        std::minmax_element(series.points.begin(), series.points.end(),
                            [](const Point& a, const Point& b) { return a.y < b.y; });
    const Point& first = series.points.front();
    const Point& last = series.points.back();
    words += " " + series.name + ": from " + short_number(first.y) + " at " + chart.x + " " +
             short_number(first.x, 9) + " to " + short_number(last.y) + " at " +
             short_number(last.x, 9) + ", between " + short_number(low->y) + " and " +
             short_number(high->y) + ".";
  }
  for (const IntervalRow& row : chart.rows) {
    words += " " + row.name + ": " + short_number(row.value);
    if (row.low < row.high) {
      words += ", from " + short_number(row.low) + " to " + short_number(row.high);
    }
    words += ".";
  }
  for (const auto& [name, value] : chart.levels) {
    words += " Line: " + name + " at " + short_number(value) + ".";
  }
  return words;
}

}  // namespace

bool thin(std::vector<Point>& points) {
  if (points.size() <= kMostPoints) return false;
  constexpr std::size_t kParts = kMostPoints / 2 - 1;
  std::vector<Point> kept{points.front()};
  const std::size_t inner = points.size() - 2;
  for (std::size_t part = 0; part < kParts; ++part) {
    const auto begin = points.begin() + 1 + static_cast<std::ptrdiff_t>(part * inner / kParts);
    const auto end = points.begin() + 1 + static_cast<std::ptrdiff_t>((part + 1) * inner / kParts);
    const auto [low, high] =
        std::minmax_element(begin, end, [](const Point& a, const Point& b) { return a.y < b.y; });
    kept.push_back(low < high ? *low : *high);
    if (low != high) kept.push_back(low < high ? *high : *low);
  }
  kept.push_back(points.back());
  points = std::move(kept);
  return true;
}

void add_or_name(std::vector<Series>& all, Series series) {
  const auto same = [](const Point& a, const Point& b) { return a.x == b.x && a.y == b.y; };
  for (Series& other : all) {
    if (!std::equal(series.points.begin(), series.points.end(), other.points.begin(),
                    other.points.end(), same)) {
      continue;
    }
    other.name += ", " + series.name;
    return;
  }
  all.push_back(std::move(series));
}

std::optional<double> only_value(const std::vector<Series>& all) {
  std::optional<double> value;
  for (const Series& series : all) {
    for (const Point& point : series.points) {
      if (value && *value != point.y) return std::nullopt;
      value = point.y;
    }
  }
  return value;
}

std::string Charts::add(Chart chart) {
  std::erase_if(chart.series, [](const Series& series) { return series.points.empty(); });
  if (chart.series.empty() && chart.rows.empty()) return "";
  const std::string words = in_words(chart);
  bool thinned = false;
  Json series = Json::array();
  for (Series& one : chart.series) {
    if (one.bands.empty()) thinned = thin(one.points) || thinned;
    series.push_back(series_json(one));
  }
  Json rows = Json::array();
  for (const IntervalRow& row : chart.rows)
    rows.push_back({row.name, row.value, row.low, row.high});
  Json levels = Json::array();
  for (const auto& [name, value] : chart.levels) levels.push_back({name, value});
  data_.push_back({{"id", chart.id},
                   {"x", chart.x},
                   {"y", chart.y},
                   {"series", std::move(series)},
                   {"rows", std::move(rows)},
                   {"levels", std::move(levels)},
                   {"fromZero", chart.from_zero},
                   {"share", chart.share}});
  const std::string height =
      chart.rows.empty() ? ""
                         : " style=\"height:" + std::to_string(5 + 2 * chart.rows.size()) + "rem\"";
  std::string figure =
      "<figure class=\"chart\" id=\"figure-" + chart.id + "\">\n<h3>" + escaped(chart.title) +
      "</h3>\n<div class=\"plot\"" + height + "><canvas id=\"" + chart.id +
      "\" role=\"img\" aria-label=\"" + escaped(words) + "\"></canvas></div>\n<figcaption>" +
      escaped(chart.says) +
      (thinned ? " Drawn from the smallest and largest values of equal parts of the steps." : "") +
      " <a class=\"csv\" download=\"" + chart.id + ".csv\">Data as CSV</a></figcaption>\n" +
      "</figure>\n";
  drawn_.push_back(std::move(chart));
  return figure;
}

}  // namespace privgrad::report
