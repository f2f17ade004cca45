#include "svg_chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "axis.hpp"
#include "digits.hpp"
#include "html.hpp"
#include "privgrad/record/short_numbers.hpp"

namespace privgrad::report {
namespace {

using core::number_text;
using core::short_number;

// Lengths are in the picture's own units; the picture may be shown at any size.
constexpr double kWidth = 420.0, kPlotHeight = 230.0, kLine = 17.0, kCharacter = 7.7;
constexpr double kSwatch = 28.0, kGap = 14.0, kRoom = 8.0;
/// The most points of a curve that get markers.
constexpr std::size_t kMostMarkers = 40;
constexpr std::size_t kMostBands = 3;    // more bands would overlap into a single grey
constexpr std::size_t kWhiskers = 6;     // intervals of each series, if there are no bands
constexpr std::size_t kStrips = 40;      // parts of the plot that show values on hover
constexpr std::size_t kMostDrawn = 800;  // points of a curve, two per unit
constexpr double kLongestNameBeside = 130.0;
constexpr std::size_t kMostTicksAtValues = 8;

/// Colours that people with colour blindness can distinguish (after Okabe and Ito).
constexpr std::array<const char*, 7> kPalette{"#0072b2", "#d55e00", "#008a66", "#b3558f",
                                              "#b07c00", "#3a3f9e", "#6b6b6b"};
/// The dashes of lines: each is used for a series of every colour before the next is used.
constexpr std::array<const char*, 4> kDashes{"", "7 3", "2 2", "9 3 2 3"};

std::string at(double value) {
  std::string text = number_text(value, std::chars_format::fixed, 1);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string attribute(const char* name, double value) {
  return std::string(" ") + name + "=\"" + at(value) + "\"";
}

/// A text's approximate width, for an unknown font; continuation bytes of UTF-8 have none.
double width_of(const std::string& text) {
  constexpr std::string_view kWide = "mwMW@%";
  double width = 0.0;
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xc0) == 0x80;
    if (!continues) width += kWide.find(c) == kWide.npos ? kCharacter : 1.6 * kCharacter;
  }
  return width;
}

/// The text, without its middle if it is too long.
std::string shortened(const std::string& text, double width) {
  if (width_of(text) <= width) return text;
  const auto half = static_cast<std::size_t>(std::max(0.0, width / kCharacter / 2.0 - 1.0));
  const auto starts = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
  };
  std::size_t head = std::min(half, text.size()), tail = text.size() - std::min(half, text.size());
  while (head > 0 && !starts(head)) --head;
  while (tail < text.size() && !starts(tail)) ++tail;
  return text.substr(0, head) + "\u2026" + text.substr(tail);
}

std::string title(const std::string& words) { return "<title>" + escaped(words) + "</title>"; }

std::string value_words(double x, const std::optional<Band>& band) {
  if (!band || band->low == band->high) return short_number(x, 4);
  return with_interval(x, {band->low, band->high});
}

/// A summary for readers who cannot see the chart.
std::string in_words(const Chart& chart) {
  std::string words = chart.title + ".";
  for (const Series& series : chart.series) {
    if (series.points.empty()) continue;
    const auto [low, high] = std::ranges::minmax_element(
        series.points, [](const Point& a, const Point& b) { return a.y < b.y; });
    const Point& first = series.points.front();
    const Point& last = series.points.back();
    words += " " + series.name + ": from " + short_number(first.y) + " at " + chart.x + " " +
             short_number(first.x, 9) + " to " + short_number(last.y) + " at " +
             short_number(last.x, 9) + ", between " + short_number(low->y) + " and " +
             short_number(high->y) + ".";
  }
  for (const IntervalRow& row : chart.rows)
    words += " " + row.name + ": " + value_words(row.value, Band{0.0, row.low, row.high}) + ".";
  for (const auto& [name, value] : chart.levels)
    words += " Line: " + name + " at " + short_number(value) + ".";
  return words;
}

class Drawing {
 public:
  Drawing(const Chart& chart, Place place)
      : chart_(chart),
        is_file_(place == Place::file),
        // A y axis without a label gets the chart's title as its label in a file, but not on a
        // page, which shows the title beside the chart.
        y_title_(chart.y.empty() && is_file_ ? chart.title : chart.y) {
    top_ = kRoom;
    if (place != Place::page) {
      top_ += kLine + 4.0;
      text(kWidth / 2, kLine, shortened(chart.title, kWidth), "middle", ink(),
           " font-weight=\"600\"");
    }
  }

  std::string picture() {
    if (chart_.rows.empty()) {
      draw_curves();
    } else {
      draw_rows();
    }
    const std::string size =
        is_file_ ? " width=\"3.5in\" height=\"" +
                       number_text(3.5 * height_ / kWidth, std::chars_format::fixed, 3) + "in\""
                 : "";
    std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"" + size + " viewBox=\"0 0 " +
                      at(kWidth) + " " + at(height_) + "\" role=\"img\" aria-label=\"" +
                      escaped(in_words(chart_)) +
                      "\" font-family=\"system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif\" "
                      "font-size=\"13\">\n";
    if (is_file_) svg += "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    return svg + body_ + "</svg>\n";
  }

 private:
  // ---- colours: from the style sheet on a page, otherwise from here

  std::string colour(std::size_t i) const {
    const char* own = kPalette[i % kPalette.size()];
    if (is_file_) return own;
    return "var(--c" + std::to_string(i % kPalette.size() + 1) + "," + own + ")";
  }
  std::string ink() const { return is_file_ ? "#1b1f24" : "var(--ink,currentColor)"; }
  std::string soft() const { return is_file_ ? "#57606a" : "var(--soft,currentColor)"; }
  std::string grid() const { return is_file_ ? "#d0d7de" : "var(--line,#8886)"; }

  // ---- pieces

  void text(double x, double y, const std::string& words, const char* anchor,
            const std::string& fill, const std::string& more = "") {
    body_ += "<text" + attribute("x", x) + attribute("y", y) + " text-anchor=\"" + anchor +
             "\" fill=\"" + fill + "\"" + more + ">" + escaped(words) + "</text>\n";
  }

  static std::string line(double x1, double y1, double x2, double y2, const std::string& stroke,
                          const std::string& more = "") {
    return "<path d=\"M" + at(x1) + " " + at(y1) + "L" + at(x2) + " " + at(y2) + "\" stroke=\"" +
           stroke + "\"" + more + "/>\n";
  }

  /// Draws a circle, triangle, square or diamond, for readers who can distinguish few colours.
  std::string marker(std::size_t i, double x, double y, double size) const {
    std::string shape = "<path d=\"M" + at(x) + " " + at(y);
    switch ((i + i / kPalette.size()) % 4) {
      case 0:
        return "<circle" + attribute("cx", x) + attribute("cy", y) + attribute("r", size) +
               " fill=\"" + colour(i) + "\"/>";
      case 1:
        shape += "m0 " + at(-1.3 * size) + "l" + at(1.2 * size) + " " + at(2.2 * size) + "h" +
                 at(-2.4 * size) + "z";
        break;
      case 2:
        shape += "m" + at(-size) + " " + at(-size) + "h" + at(2 * size) + "v" + at(2 * size) + "h" +
                 at(-2 * size) + "z";
        break;
      default:
        shape += "m0 " + at(-1.4 * size) + "l" + at(1.4 * size) + " " + at(1.4 * size) + "l" +
                 at(-1.4 * size) + " " + at(1.4 * size) + "l" + at(-1.4 * size) + " " +
                 at(-1.4 * size) + "z";
    }
    return shape + "\" fill=\"" + colour(i) + "\"/>";
  }

  std::string dash(std::size_t i, bool dashed) const {
    const std::string pattern = dashed ? "5 4" : kDashes[i / kPalette.size() % kDashes.size()];
    return pattern.empty() ? "" : " stroke-dasharray=\"" + pattern + "\"";
  }

  std::string place_words(double x) const {
    return chart_.x + " " +
           (chart_.categories.empty() ? short_number(x, 9)
                                      : chart_.categories[static_cast<std::size_t>(x)]);
  }

  // ---- axes

  double x_of(const Axis& axis, double x) const { return left_ + axis.share(x) * width_; }
  double y_of(const Axis& axis, double y) const {
    return top_ + (1.0 - axis.share(y)) * plot_height_;
  }

  /// Draws grid, labels and title of the x axis, without labels that would touch earlier ones.
  void draw_x_axis(const Axis& axis) {
    const double bottom = top_ + plot_height_;
    double free_from = 0.0;
    for (const Axis::Tick& tick : axis.ticks()) {
      const double x = x_of(axis, tick.value);
      body_ += line(x, top_, x, bottom + 4.0, grid());
      const double half = width_of(tick.label) / 2.0;
      const double middle = std::clamp(x, half, kWidth - half);
      if (middle - half < free_from) continue;
      text(middle, bottom + kLine, tick.label, "middle", ink());
      free_from = middle + half + kCharacter;
    }
    text(left_ + width_ / 2, bottom + 2 * kLine + 2, shortened(chart_.x, kWidth), "middle", soft());
    height_ = bottom + 2 * kLine + kRoom;
  }

  void draw_y_axis(const Axis& axis) {
    for (const Axis::Tick& tick : axis.ticks()) {
      const double y = y_of(axis, tick.value);
      body_ += line(left_ - 4.0, y, left_ + width_, y, grid());
      text(left_ - 7.0, y + 4.5, tick.label, "end", ink());
    }
    if (y_title_.empty()) return;
    const double middle = top_ + plot_height_ / 2.0;
    text(0, 0, shortened(y_title_, plot_height_ + 40.0), "middle", soft(),
         " transform=\"translate(13 " + at(middle) + ") rotate(-90)\"");
  }

  Axis x_axis() const {
    std::vector<double> all;
    bool is_curve = !chart_.log_x && !chart_.square && chart_.categories.empty();
    for (const Series& series : chart_.series) {
      is_curve = is_curve && !series.markers;
      for (const Point& point : series.points) all.push_back(point.x);
    }
    std::ranges::sort(all);
    double low = all.front(), high = all.back();
    if (!chart_.categories.empty()) {
      low = -0.3;
      high = static_cast<double>(chart_.categories.size()) - 0.7;
    } else if (chart_.log_x) {
      const double room = low < high ? std::pow(high / low, 0.05) : 1.5;
      low /= room;
      high *= room;
    } else if (is_curve && low < high) {
      low = std::min(low, 0.0);
    } else if (!chart_.square) {
      const double room = 0.06 * (high - low);
      low -= room;
      high += room;
    }
    Axis axis(low, high, chart_.log_x, 6);
    if (!chart_.categories.empty()) axis.tick_by_name(chart_.categories);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (chart_.log_x && all.size() <= kMostTicksAtValues) axis.tick_at(all);
    return axis;
  }

  Axis y_axis() const {
    if (chart_.square) return {0.0, 1.0, false, 5};
    std::vector<double> all, means;
    for (const Series& series : chart_.series) {
      for (const Point& point : series.points) means.push_back(point.y);
      for (const Band& band : series.bands) all.insert(all.end(), {band.low, band.high});
    }
    all.insert(all.end(), means.begin(), means.end());
    for (const auto& level : chart_.levels) all.push_back(level.second);
    auto [low, high] = std::ranges::minmax_element(all);
    const double room =
        *low < *high ? 0.06 * (*high - *low) : 0.1 * std::max(1e-12, std::fabs(*low));
    double from = chart_.from_zero ? std::min(0.0, *low) : *low - room, to = *high + room;
    // An interval may extend to values that its mean cannot have; the axis leaves these out.
    if (from < 0.0 && *std::ranges::min_element(means) >= 0.0 && chart_.levels.empty()) from = 0.0;
    if (chart_.share) to = std::min(to, std::max(1.0, *high));
    return {from, to, false, 5};
  }

  // ---- curves

  void draw_curves() {
    const Axis y = y_axis();
    double labels = 0.0;
    for (const Axis::Tick& tick : y.ticks()) labels = std::max(labels, width_of(tick.label));
    left_ = labels + 10.0 + (y_title_.empty() ? 0.0 : kLine + 4.0);
    width_ = kWidth - left_ - kRoom;
    plot_height_ = chart_.square ? width_ : kPlotHeight;
    const Axis x = x_axis();
    draw_x_axis(x);
    draw_y_axis(y);
    for (const auto& level : chart_.levels)
      body_ += line(left_, y_of(y, level.second), left_ + width_, y_of(y, level.second), ink(),
                    " stroke-width=\"1.5\" stroke-dasharray=\"5 4\"");
    std::size_t bands = 0, longest = 0;
    for (const Series& series : chart_.series) {
      bands += series.bands.empty() ? 0 : 1;
      longest = std::max(longest, series.points.size());
    }
    legend_y_ = height_ + 2.0;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) draw_series(x, y, i, bands);
    for (const auto& [name, value] : chart_.levels)
      legend(name,
             line(0, 0, kSwatch - 6, 0, ink(), " stroke-width=\"1.5\" stroke-dasharray=\"5 4\""));
    if (longest > kMostMarkers) draw_strips(x);
    height_ = legend_y_ + (legend_x_ > 0.0 ? kLine : 0.0);
  }

  std::size_t colour_of(std::size_t i) const { return chart_.series[i].colour.value_or(i); }

  void draw_series(const Axis& x, const Axis& y, std::size_t i, std::size_t bands) {
    const Series& series = chart_.series[i];
    const std::size_t own = colour_of(i);
    const std::string stroke = " stroke=\"" + colour(own) + "\"";
    body_ += "<g class=\"series\" data-name=\"" + escaped(series.name) + "\">\n";
    if (!series.bands.empty()) {
      if (bands <= kMostBands) {
        body_ += band(x, y, series, own);
      } else {
        body_ += whiskers(x, y, series, i);
      }
    }
    const std::vector<Point> points = drawn(series);
    if (!series.markers && points.size() > 1) {
      std::string path;
      for (std::size_t j = 0; j < points.size(); ++j) {
        const bool is_step = j > 0 && series.stepped;
        path.append(j == 0 ? "M" : is_step ? "H" : "L").append(at(x_of(x, points[j].x)));
        path.append(is_step ? "V" : " ").append(at(y_of(y, points[j].y)));
      }
      body_ += "<path d=\"" + path + "\" fill=\"none\"" + stroke + " stroke-width=\"2\"" +
               dash(own, series.dashed) + "/>\n";
    }
    if (points.size() <= kMostMarkers) {
      for (std::size_t j = 0; j < points.size(); ++j) {
        const double across = x_of(x, points[j].x), up = y_of(y, points[j].y);
        const auto interval = series.bands.empty() ? std::nullopt : std::optional(series.bands[j]);
        const bool is_shown = series.markers || !series.stepped || points.size() == 1;
        body_ += "<g>" +
                 title(series.name + ", " + place_words(points[j].x) + ": " +
                       value_words(points[j].y, interval)) +
                 (is_shown ? marker(own, across, up, series.markers ? 4.5 : 3.0) : "") + "<circle" +
                 attribute("cx", across) + attribute("cy", up) +
                 " r=\"8\" fill=\"transparent\"/></g>\n";
      }
    }
    if (chart_.series.size() + chart_.levels.size() > 1) {
      std::string swatch;
      if (!series.markers)
        swatch = "<path d=\"M0 0H" + at(kSwatch - 6) + "\"" + stroke + " stroke-width=\"2\"" +
                 dash(own, series.dashed) + "/>";
      if (series.points.size() <= kMostMarkers && !series.stepped)
        swatch += marker(own, (kSwatch - 6) / 2, 0, 3.5);
      legend(series.name, swatch);
    }
    body_ += "</g>\n";
  }

  std::vector<Point> drawn(const Series& series) const {
    std::vector<Point> points = series.points;
    if (series.bands.empty()) thin(points, kMostDrawn);
    return points;
  }

  std::string band(const Axis& x, const Axis& y, const Series& series, std::size_t own) const {
    std::string above, below;
    for (std::size_t j = 0; j < series.bands.size(); ++j) {
      const std::string across = at(x_of(x, series.points[j].x)) + " ";
      above.append(j == 0 ? "M" : "L").append(across).append(at(y_of(y, series.bands[j].high)));
      below.insert(0, std::string("L").append(across).append(at(y_of(y, series.bands[j].low))));
    }
    return "<path d=\"" + above + below + "z\" fill=\"" + colour(own) +
           "\" fill-opacity=\"0.16\"/>\n";
  }

  /// Draws some intervals of one series. Each series has its own places, so that no interval hides
  /// another.
  std::string whiskers(const Axis& x, const Axis& y, const Series& series, std::size_t i) const {
    const std::size_t count = std::min(kWhiskers, series.points.size());
    const double shift = static_cast<double>(i + 1) / static_cast<double>(chart_.series.size() + 1);
    std::string all;
    for (std::size_t k = 0; k < count; ++k) {
      const double share = (static_cast<double>(k) + shift) / static_cast<double>(count);
      const auto j = static_cast<std::size_t>(share * static_cast<double>(series.points.size()));
      const double across = x_of(x, series.points[j].x);
      all += whisker(across, y_of(y, series.bands[j].low), y_of(y, series.bands[j].high),
                     colour(colour_of(i)));
    }
    return all;
  }

  static std::string whisker(double x, double low, double high, const std::string& stroke) {
    return "<path d=\"M" + at(x) + " " + at(low) + "V" + at(high) + "M" + at(x - 3) + " " +
           at(low) + "h6M" + at(x - 3) + " " + at(high) + "h6\" fill=\"none\" stroke=\"" + stroke +
           "\" stroke-width=\"1.25\"/>\n";
  }

  /// Adds strips that show the values of all series at the pointer.
  void draw_strips(const Axis& x) {
    std::vector<double> places;
    for (const Series& series : chart_.series)
      for (const Point& point : series.points) places.push_back(point.x);
    std::ranges::sort(places);
    places.erase(std::unique(places.begin(), places.end()), places.end());
    const std::size_t every = places.size() / kStrips + 1;
    std::vector<double> shown;
    for (std::size_t i = 0; i < places.size(); ++i)
      if (i % every == 0 || i + 1 == places.size()) shown.push_back(places[i]);
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const double begin = i == 0 ? left_ : (x_of(x, shown[i - 1]) + x_of(x, shown[i])) / 2.0;
      const double end = i + 1 == shown.size() ? left_ + width_
                                               : (x_of(x, shown[i]) + x_of(x, shown[i + 1])) / 2.0;
      std::string words = chart_.x + " " + short_number(shown[i], 9);
      for (const Series& series : chart_.series) {
        const auto next = std::ranges::upper_bound(series.points, shown[i], {}, &Point::x);
        if (next == series.points.begin()) continue;
        const auto j = static_cast<std::size_t>(next - series.points.begin() - 1);
        const auto interval = series.bands.empty() ? std::nullopt : std::optional(series.bands[j]);
        words += "\n" + series.name + ": " + value_words(series.points[j].y, interval);
      }
      body_ += "<rect class=\"strip\"" + attribute("x", begin) + attribute("y", top_) +
               attribute("width", end - begin) + attribute("height", plot_height_) +
               " fill=\"transparent\">" + title(words) + "</rect>\n";
    }
  }

  /// Adds an entry to the legend, on the next line if it does not fit.
  void legend(const std::string& name, const std::string& swatch) {
    const std::string shown = shortened(name, kWidth - kSwatch);
    const double width = kSwatch + width_of(shown);
    if (legend_x_ > 0.0 && legend_x_ + width > kWidth) {
      legend_x_ = 0.0;
      legend_y_ += kLine;
    }
    body_ += "<g class=\"entry\" transform=\"translate(" + at(legend_x_) + " " +
             at(legend_y_ + 6.0) + ")\">" + (shown == name ? "" : title(name)) + swatch;
    text(kSwatch, 4.5, shown, "start", ink());
    body_ += "</g>\n";
    legend_x_ += width + kGap;
  }

  // ---- rows of intervals

  void draw_rows() {
    double low = chart_.rows.front().value, high = low, names = 0.0;
    for (const IntervalRow& row : chart_.rows) {
      low = std::min({low, row.value, row.low});
      high = std::max({high, row.value, row.high});
      names = std::max(names, width_of(row.name));
    }
    for (const auto& level : chart_.levels) {
      low = std::min(low, level.second);
      high = std::max(high, level.second);
    }
    const bool is_beside = names <= kLongestNameBeside;
    const double row_height = is_beside ? 24.0 : 36.0;
    left_ = is_beside ? names + 14.0 : kRoom;
    width_ = kWidth - left_ - kRoom;
    plot_height_ = row_height * static_cast<double>(chart_.rows.size());
    const double room = 0.06 * (high - low);
    const Axis x(low - room, high + room, false, 5);
    draw_x_axis(x);
    for (const auto& level : chart_.levels)
      body_ += line(x_of(x, level.second), top_, x_of(x, level.second), top_ + plot_height_, ink(),
                    " stroke-width=\"1.5\" stroke-dasharray=\"5 4\"");
    for (std::size_t i = 0; i < chart_.rows.size(); ++i) {
      const IntervalRow& row = chart_.rows[i];
      const double bottom = top_ + row_height * static_cast<double>(i + 1);
      const double y = bottom - 12.0;
      body_ += "<g class=\"row\" data-name=\"" + escaped(row.name) + "\">" +
               title(row.name + ": " + value_words(row.value, Band{0.0, row.low, row.high}));
      if (is_beside) {
        text(left_ - 8.0, y + 4.5, row.name, "end", ink());
      } else {
        text(0, y - 9.0, shortened(row.name, kWidth), "start", ink());
      }
      const double from = x_of(x, row.low), to = x_of(x, row.high);
      if (from < to)
        body_ += "<path d=\"M" + at(from) + " " + at(y) + "H" + at(to) + "M" + at(from) + " " +
                 at(y - 5) + "v10M" + at(to) + " " + at(y - 5) + "v10\" fill=\"none\" stroke=\"" +
                 colour(row.colour) + "\" stroke-width=\"2\"/>";
      body_ += "<circle" + attribute("cx", x_of(x, row.value)) + attribute("cy", y) +
               " r=\"4.5\" fill=\"" + colour(row.colour) + "\"/>" + "<rect x=\"0\"" +
               attribute("y", bottom - row_height) + attribute("width", kWidth) +
               attribute("height", row_height) + " fill=\"transparent\"/></g>\n";
    }
  }

  const Chart& chart_;
  const bool is_file_;
  const std::string y_title_;
  double left_ = 0.0, top_ = 0.0, width_ = 0.0, plot_height_ = 0.0, height_ = 0.0;
  double legend_x_ = 0.0, legend_y_ = 0.0;
  std::string body_;
};

}  // namespace

std::string svg_chart(const Chart& chart, Place place) {
  const bool is_empty =
      chart.rows.empty() &&
      std::ranges::all_of(chart.series, [](const Series& one) { return one.points.empty(); });
  return is_empty ? "" : Drawing(chart, place).picture();
}

}  // namespace privgrad::report
