#include "svg_chart.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "gnuplot.hpp"
#include "privgrad/value.hpp"

namespace privgrad::report {
namespace {

/// Distinguishable for readers with colour vision deficiency (Okabe and Ito).
constexpr std::array<const char*, 7> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#e69f00", "#56b4e9", "#000000"};
/// With more points it is a curve rather than measurements.
constexpr std::size_t kMostMarkers = 60;

/// Between single quotes gnuplot interprets nothing, not even commands in backquotes.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return out + "'";
}

/// After the last colour, dashes and shapes change, so that no two of 28 lines look alike.
constexpr std::array<int, 4> kDashes{1, 2, 3, 4};
constexpr std::array<int, 4> kShapes{7, 9, 5, 13};

std::string colour(std::size_t i) {
  return " lc rgb '" + std::string(kColours[i % kColours.size()]) + "'";
}

std::string shape(std::size_t i) {
  return " pt " + std::to_string(kShapes[i / kColours.size() % kShapes.size()]) + " ps 0.5";
}

std::string dash(std::size_t i) {
  return " dt " + std::to_string(kDashes[i / kColours.size() % kDashes.size()]) + " lw 1.8";
}

/// Title, axes and paper; noenhanced, so that '_' and '^' in names are literal.
std::string setup(const Chart& chart, std::size_t height) {
  return "set encoding utf8\nset terminal svg size 720," + std::to_string(height) +
         " noenhanced font 'sans-serif,12' background '#ffffff'\nset title " + quoted(chart.title) +
         " font 'sans-serif,15'\nset xlabel " + quoted(chart.x) +
         "\nset tics nomirror\nset format '%.6g'\nset grid lt 1 lw 0.6 lc rgb '#e0e0e0'\n";
}

/// A named block of data for a plot command, line by line.
std::string block(const std::string& name, const std::string& lines) {
  return name + " << END\n" + lines + "END\n";
}

std::string cells(std::initializer_list<double> values) {
  std::string line;
  for (const double value : values) line += format_number(value) + " ";
  return line + "\n";
}

std::string style(const Series& series, std::size_t i) {
  const bool marked = series.points.size() <= kMostMarkers;
  if (series.stepped) return "with steps" + dash(i);
  if (series.markers) return "with points" + shape(i);
  return marked ? "with linespoints" + shape(i) + dash(i) : "with lines" + dash(i);
}

/// Axes end where the data ends, so that curves fill the width, and they stay within the possible
/// values.
std::string ranges(const Chart& chart) {
  std::vector<double> x, y;
  bool is_curve = true;
  for (const Series& series : chart.series) {
    is_curve = is_curve && !series.markers && series.bands.empty();
    for (const Point& point : series.points) {
      x.push_back(point.x);
      y.push_back(point.y);
    }
    for (const Band& band : series.bands) y.insert(y.end(), {band.low, band.high});
  }
  for (const auto& level : chart.levels) y.push_back(level.second);
  const auto [low_x, high_x] = std::minmax_element(x.begin(), x.end());
  const auto [low, high] = std::minmax_element(y.begin(), y.end());
  const double room = 0.05 * (*high - *low);
  const bool at_zero = chart.from_zero || (*low >= 0.0 && *low < room);
  const bool at_one = chart.share && *high + room > 1.0;
  is_curve = is_curve && *low_x < *high_x;
  std::string commands = std::string("set offsets ") +
                         (is_curve ? "0, 0, " : "graph 0.03, graph 0.03, ") +
                         (at_one ? "0, " : "graph 0.05, ") + (at_zero ? "0\n" : "graph 0.05\n");
  if (is_curve) {
    commands += "set xrange [" + format_number(std::min(0.0, *low_x)) + ":" +
                format_number(*high_x) + "]\n";
  }
  return commands + "set yrange [" + (at_zero ? "0" : "*") + ":" + (at_one ? "1" : "*") + "]\n";
}

std::string plot_lines(const Chart& chart) {
  std::string data, plots;
  const auto add = [&](const std::string& plot) { plots += (plots.empty() ? "" : ", ") + plot; };
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const Series& series = chart.series[i];
    if (series.points.empty()) continue;
    const std::string number = std::to_string(i);
    std::string points, bands;
    for (const Point& point : series.points) points += cells({point.x, point.y});
    for (std::size_t j = 0; j < series.bands.size(); ++j) {
      bands += cells(
          {series.points[j].x, series.points[j].y, series.bands[j].low, series.bands[j].high});
    }
    data += block("$points" + number, points);
    add("$points" + number + " using 1:2 " + style(series, i) + colour(i) + " title " +
        quoted(series.name));
    if (bands.empty()) continue;
    data += block("$bands" + number, bands);
    add("$bands" + number + " using 1:2:3:4 with yerrorbars" + shape(i) + colour(i) + " notitle");
  }
  if (plots.empty()) return "";
  for (const auto& [name, value] : chart.levels)
    add(format_number(value) + " with lines dt 2 lc rgb '#404040' title " + quoted(name));
  const std::size_t names = chart.series.size() + chart.levels.size();
  std::string commands = setup(chart, 400 + 18 * names);
  // On the page a chart may be named after its axis; a separate picture has both.
  commands += "set ylabel " + quoted(chart.y.empty() ? chart.title : chart.y) +
              "\nset border 3 lc rgb '#404040'\n";
  commands += "set key outside below left vertical Left reverse maxcols 1\n";
  commands += ranges(chart);
  return data + commands + "plot " + plots + "\n";
}

std::string plot_rows(const Chart& chart) {
  std::string data, names;
  for (std::size_t i = 0; i < chart.rows.size(); ++i) {
    const IntervalRow& row = chart.rows[i];
    data += cells({row.value, static_cast<double>(i + 1), row.low, row.high});
    names += (i == 0 ? "" : ", ") + quoted(row.name) + " " + std::to_string(i + 1);
  }
  std::string commands = setup(chart, 100 + 26 * chart.rows.size());
  commands += "set border 1 lc rgb '#404040'\nset grid noytics\nunset key\n";
  commands += "set ytics (" + names + ") scale 0\nset offsets graph 0.03, graph 0.03, 0, 0\n";
  commands += "set yrange [" + std::to_string(chart.rows.size()) + ".5:0.5]\n";
  for (const auto& [name, value] : chart.levels) {
    const std::string at = format_number(value);
    commands.append("set arrow from ").append(at).append(", graph 0 to ").append(at);
    commands += ", graph 1 nohead dt 2 lc rgb '#404040'\n";
  }
  return block("$rows", data) + commands + "plot $rows using 1:2:3:4 with xerrorbars pt 7 ps 0.6" +
         " lw 2" + colour(0) + "\n";
}

}  // namespace

std::string svg_chart(const Chart& chart) {
  const std::string commands = chart.rows.empty() ? plot_lines(chart) : plot_rows(chart);
  return commands.empty() ? "" : gnuplot(commands);
}

}  // namespace privgrad::report
