// The charts of a page as data, their HTML and CSV, and functions that simplify their series.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace privgrad::report {

/// The most points that a page keeps of a series without bands.
inline constexpr std::size_t kMostPoints = 2000;

struct Point {
  double x = 0.0, y = 0.0;
};
inline Point point(std::uint64_t x, double y) { return {static_cast<double>(x), y}; }

/// The interval around a mean.
struct Band {
  double x = 0.0, low = 0.0, high = 0.0;
};

struct Series {
  std::string name;
  std::vector<Point> points;  ///< Ordered by x; finite.
  std::vector<Band> bands{};  ///< One per point, or none.
  /// The line is a step function: a value is valid until the next point.
  bool stepped = false;
  bool markers = false;                 ///< The points are drawn without a line.
  bool dashed = false;                  ///< The line is dashed, as for a reference.
  std::optional<std::size_t> colour{};  ///< Index of the colour; by default, the series' index.
};

/// One row of a chart of intervals: an arm with its mean.
struct IntervalRow {
  std::string name;
  double value = 0.0;
  double low = 0.0, high = 0.0;  ///< If both equal `value`, no interval is known.
  std::size_t colour = 0;        ///< Index of the colour, as in Series.
};

struct Chart {
  std::string id;  ///< Letters, digits and '-'; unique on the page.
  std::string title;
  std::string x, y;  ///< The titles of the axes.
  std::string says;  ///< An explanation for readers, in one or two sentences.
  std::vector<Series> series{};
  std::vector<IntervalRow> rows{};  ///< If not empty, the chart shows these intervals.
  /// Named lines: horizontal, or vertical in a chart with `rows`.
  std::vector<std::pair<std::string, double>> levels{};
  bool from_zero = false;                 ///< The y axis begins at 0.
  bool share = false;                     ///< y is in [0, 1].
  std::vector<std::string> categories{};  ///< If not empty: the names of x = 0, 1, ...
  bool log_x = false;                     ///< All x are above 0.
  bool square = false;                    ///< x and y both range from 0 to 1.
};

/// The charts of a page, in their order.
class Charts {
 public:
  /// \returns the figure as HTML; "" if there is nothing to draw.
  std::string add(Chart chart);
  const std::vector<Chart>& drawn() const { return drawn_; }

 private:
  std::vector<Chart> drawn_;
};

/// A text as a field of CSV (RFC 4180). An apostrophe is put before texts that a spreadsheet would
/// read as formulas.
std::string csv_text(const std::string& text);

/// The data of a chart as CSV.
std::string csv(const Chart& chart);

/// Removes points such that the picture stays about the same. Keeps the first and the last point;
/// divides the points between them into parts, and keeps the smallest and largest y of each part.
/// \returns whether points were removed.
bool thin(std::vector<Point>& points, std::size_t most = kMostPoints);

/// Adds a series. If an earlier series has the same points, only extends its name by this name.
void add_or_name(std::vector<Series>& all, Series series);

/// The value that all points have, which then need no chart; nothing if there is no such value.
std::optional<double> only_value(const std::vector<Series>& all);

}  // namespace privgrad::report
