// Charts of a page: their series as data, functions that thin out series, and their HTML.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace privgrad::report {

/// The most points of a series that a page offers as data.
inline constexpr std::size_t kMostPoints = 2000;

struct Point {
  double x = 0.0, y = 0.0;
};

/// A mean with its interval.
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
  std::optional<std::size_t> colour{};  ///< Index of its colour; if absent: the series' place.
};

/// One row of a chart of intervals: an arm with its mean.
struct IntervalRow {
  std::string name;
  double value = 0.0;
  double low = 0.0, high = 0.0;  ///< If both equal `value`, no interval is known.
  std::size_t colour = 0;        ///< The index of its colour, as in Series.
};

struct Chart {
  std::string id;  ///< Letters, digits and '-'; unique on the page.
  std::string title;
  std::string x, y;  ///< The titles of the axes.
  std::string says;  ///< Its message to readers, in a sentence or two.
  std::vector<Series> series{};
  std::vector<IntervalRow> rows{};  ///< If not empty: a chart of intervals, one row each.
  std::vector<std::pair<std::string, double>> levels{};  ///< Horizontal (rows: vertical) lines.
  bool from_zero = false;                                ///< The y axis begins at 0.
  bool share = false;                                    ///< y is in [0, 1].
  std::vector<std::string> categories{};  ///< Names for x = 0, 1, ... if x is not a number.
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

/// A text as a field of CSV (RFC 4180). Texts that a spreadsheet would read as a formula begin with
/// an additional apostrophe.
std::string csv_text(const std::string& text);

/// The data of a chart as CSV.
std::string csv(const Chart& chart);

/// Keeps fewer points that give about the same picture: the first, the last, and the smallest and
/// the largest of each part.
/// \returns whether points were left out.
bool thin(std::vector<Point>& points, std::size_t most = kMostPoints);

/// Adds a series; identical lines become one line with all their names.
void add_or_name(std::vector<Series>& all, Series series);

/// The value of all points of all lines, if it is the same, so that no chart is needed; nothing if
/// there are several values, or no points.
std::optional<double> only_value(const std::vector<Series>& all);

}  // namespace privgrad::report
