#include "chart.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "html.hpp"
#include "privgrad/value.hpp"
#include "svg_chart.hpp"

namespace privgrad::report {
namespace {

std::string numbers(std::initializer_list<double> values) {
  std::string line;
  for (const double value : values) line += "," + format_number(value);
  return line;
}

}  // namespace

std::string csv_text(const std::string& text) {
  const bool is_formula =
      !text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos;
  std::string out = is_formula ? "\"'" : "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string csv(const Chart& chart) {
  const auto place = [&](double x) {
    return chart.categories.empty() ? numbers({x})
                                    : "," + csv_text(chart.categories[static_cast<std::size_t>(x)]);
  };
  std::string text;
  if (chart.rows.empty()) {
    text = "\"series\"," + csv_text(chart.x) + "," + csv_text(chart.y) + ",\"low\",\"high\"\r\n";
    for (const Series& series : chart.series) {
      for (std::size_t i = 0; i < series.points.size(); ++i) {
        text += csv_text(series.name) + place(series.points[i].x) + numbers({series.points[i].y});
        if (!series.bands.empty()) text += numbers({series.bands[i].low, series.bands[i].high});
        text += "\r\n";
      }
    }
  } else {
    text = "\"name\"," + csv_text(chart.x) + ",\"low\",\"high\"\r\n";
    for (const IntervalRow& row : chart.rows)
      text += csv_text(row.name) + numbers({row.value, row.low, row.high}) + "\r\n";
  }
  for (const auto& [name, value] : chart.levels)
    text += csv_text("line: " + name) + (chart.rows.empty() ? "," : "") + numbers({value}) + "\r\n";
  return text;
}

bool thin(std::vector<Point>& points, std::size_t most) {
  if (points.size() <= most) return false;
  const std::size_t parts = most / 2 - 1;
  std::vector<Point> kept{points.front()};
  const std::size_t inner = points.size() - 2;
  for (std::size_t part = 0; part < parts; ++part) {
    const auto begin = points.begin() + 1 + static_cast<std::ptrdiff_t>(part * inner / parts);
    const auto end = points.begin() + 1 + static_cast<std::ptrdiff_t>((part + 1) * inner / parts);
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
    if (!std::ranges::equal(series.points, other.points, same)) {
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
  bool thinned = false;
  for (Series& one : chart.series)
    if (one.bands.empty()) thinned = thin(one.points) || thinned;
  const std::string svg = svg_chart(chart, Place::page);
  if (svg.empty()) return "";
  std::string figure =
      "<figure class=\"chart\" id=\"figure-" + chart.id + "\">\n<h3>" + escaped(chart.title) +
      "</h3>\n" + svg + "<figcaption>" + escaped(chart.says) +
      (thinned ? " Drawn from the smallest and largest values of equal parts of the steps." : "") +
      " <a class=\"csv\" download=\"" + chart.id + ".csv\" href=\"data:text/csv;charset=utf-8," +
      percent_encoded(csv(chart)) + "\">Data as CSV</a></figcaption>\n</figure>\n";
  drawn_.push_back(std::move(chart));
  return figure;
}

}  // namespace privgrad::report
