#include "svg_chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "html.hpp"
#include "privgrad/core/short_numbers.hpp"

namespace privgrad::report {
namespace {

constexpr double kWidth = 720.0;
constexpr double kLeft = 80.0;
constexpr double kRight = 20.0;
constexpr double kTop = 44.0;
constexpr double kPlotHeight = 300.0;
constexpr double kRowHeight = 26.0;
/// Told apart by people who see colours differently (Okabe and Ito).
constexpr std::array<const char*, 7> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#e69f00", "#56b4e9", "#000000"};

std::string fixed(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return "<line x1=\"" + fixed(x1) + "\" y1=\"" + fixed(y1) + "\" x2=\"" + fixed(x2) + "\" y2=\"" +
         fixed(y2) + "\" " + style + "/>\n";
}

std::string words(double x, double y, const std::string& anchor, const std::string& content,
                  const std::string& more = "") {
  return "<text x=\"" + fixed(x) + "\" y=\"" + fixed(y) + "\" text-anchor=\"" + anchor + "\"" +
         more + ">" + escaped(content) + "</text>\n";
}

/// Round numbers, about five of them, that span a range.
std::vector<double> ticks(double low, double high) {
  const double rough = (high - low) / 5.0;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = power * factor;
    if (step >= rough) break;
  }
  std::vector<double> all;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1.0)
    all.push_back(i * step);
  return all;
}

struct Range {
  double low = 0.0, high = 1.0;

  void widen() {
    const double margin = high > low ? 0.05 * (high - low) : std::max(1e-9, 0.1 * std::fabs(low));
    low -= margin;
    high += margin;
  }
};

/// From values of an axis to places in the picture.
struct Scale {
  Range range;
  double from = 0.0, to = 1.0;
  double at(double value) const {
    return from + (value - range.low) / (range.high - range.low) * (to - from);
  }
};

void include(Range& range, bool& any, double value) {
  range.low = any ? std::min(range.low, value) : value;
  range.high = any ? std::max(range.high, value) : value;
  any = true;
}

std::string begin(const Chart& chart, double height) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + fixed(kWidth) + " " +
         fixed(height) + "\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n<title>" +
         escaped(chart.title) + "</title>\n<rect width=\"" + fixed(kWidth) + "\" height=\"" +
         fixed(height) + "\" fill=\"#ffffff\"/>\n" +
         words(kWidth / 2.0, 22.0, "middle", chart.title, " font-size=\"15\"");
}

std::string marks(const Series& series, const Scale& x, const Scale& y, const std::string& colour) {
  std::string svg;
  const std::string stroke = "stroke=\"" + colour + "\"";
  for (std::size_t i = 0; i < series.bands.size(); ++i) {
    const double at = x.at(series.points[i].x);
    const double low = y.at(series.bands[i].low);
    const double high = y.at(series.bands[i].high);
    svg += line(at, low, at, high, stroke);
    svg +=
        line(at - 4.0, low, at + 4.0, low, stroke) + line(at - 4.0, high, at + 4.0, high, stroke);
  }
  if (!series.markers && series.points.size() > 1) {
    svg += "<polyline fill=\"none\" stroke-width=\"1.8\" " + stroke + " points=\"";
    for (const Point& point : series.points)
      svg += fixed(x.at(point.x)) + "," + fixed(y.at(point.y)) + " ";
    svg += "\"/>\n";
  }
  if (series.points.size() > 60) return svg;  // a curve, not measurements
  for (const Point& point : series.points) {
    svg += "<circle r=\"3.2\" fill=\"" + colour + "\" cx=\"" + fixed(x.at(point.x)) + "\" cy=\"" +
           fixed(y.at(point.y)) + "\"/>\n";
  }
  return svg;
}

std::string lines_chart(const Chart& chart) {
  Range across, up;
  bool any_x = false;
  bool any_y = false;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      include(across, any_x, point.x);
      include(up, any_y, point.y);
    }
    for (const Band& band : series.bands) {
      include(up, any_y, band.low);
      include(up, any_y, band.high);
    }
  }
  if (!any_x) return "";
  if (chart.from_zero) include(up, any_y, 0.0);
  across.widen();
  up.widen();
  const double bottom = kTop + kPlotHeight;
  const Scale x{across, kLeft, kWidth - kRight};
  const Scale y{up, bottom, kTop};
  const double height =
      bottom + 52.0 + 20.0 * static_cast<double>(chart.series.size() + chart.levels.size());
  std::string svg = begin(chart, height);
  for (const double tick : ticks(up.low, up.high)) {
    svg += line(kLeft, y.at(tick), kWidth - kRight, y.at(tick), "stroke=\"#e0e0e0\"");
    svg += words(kLeft - 8.0, y.at(tick) + 4.0, "end", core::short_number(tick, 5));
  }
  for (const double tick : ticks(across.low, across.high)) {
    svg += line(x.at(tick), bottom, x.at(tick), bottom + 5.0, "stroke=\"#404040\"");
    svg += words(x.at(tick), bottom + 19.0, "middle", core::short_number(tick, 6));
  }
  svg += line(kLeft, bottom, kWidth - kRight, bottom, "stroke=\"#404040\"");
  svg += words((kLeft + kWidth - kRight) / 2.0, bottom + 36.0, "middle", chart.x);
  svg += words(18.0, (kTop + bottom) / 2.0, "middle", chart.y,
               " transform=\"rotate(-90 18 " + fixed((kTop + bottom) / 2.0) + ")\"");
  double legend = bottom + 58.0;
  std::size_t drawn = 0;
  for (const Series& series : chart.series) {
    const std::string colour = kColours[drawn++ % kColours.size()];
    svg += marks(series, x, y, colour);
    svg += line(kLeft, legend - 4.0, kLeft + 24.0, legend - 4.0,
                "stroke-width=\"3\" stroke=\"" + colour + "\"");
    svg += words(kLeft + 32.0, legend, "start", series.name);
    legend += 20.0;
  }
  return svg + "</svg>\n";
}

std::string rows_chart(const Chart& chart) {
  constexpr double kNames = 280.0;
  Range across;
  bool any = false;
  for (const IntervalRow& row : chart.rows) {
    include(across, any, row.low);
    include(across, any, row.high);
    include(across, any, row.value);
  }
  for (const auto& [name, value] : chart.levels) include(across, any, value);
  across.widen();
  const Scale x{across, kNames, kWidth - kRight};
  const double bottom = kTop + kRowHeight * static_cast<double>(chart.rows.size());
  std::string svg = begin(chart, bottom + 48.0);
  for (const double tick : ticks(across.low, across.high)) {
    svg += line(x.at(tick), kTop, x.at(tick), bottom, "stroke=\"#e0e0e0\"");
    svg += words(x.at(tick), bottom + 18.0, "middle", core::short_number(tick, 5));
  }
  for (const auto& [name, value] : chart.levels)
    svg += line(x.at(value), kTop, x.at(value), bottom, "stroke=\"#404040\"");
  svg += words((kNames + kWidth - kRight) / 2.0, bottom + 36.0, "middle", chart.x);
  double at = kTop + kRowHeight / 2.0;
  for (const IntervalRow& row : chart.rows) {
    const std::string stroke = std::string("stroke=\"") + kColours[0] + "\" stroke-width=\"2\"";
    svg += words(kNames - 10.0, at + 4.0, "end", row.name);
    svg += line(x.at(row.low), at, x.at(row.high), at, stroke);
    svg += "<circle r=\"4\" fill=\"" + std::string(kColours[0]) + "\" cx=\"" +
           fixed(x.at(row.value)) + "\" cy=\"" + fixed(at) + "\"/>\n";
    at += kRowHeight;
  }
  return svg + "</svg>\n";
}

}  // namespace

std::string svg_chart(const Chart& chart) {
  return chart.rows.empty() ? lines_chart(chart) : rows_chart(chart);
}

}  // namespace privgrad::report
