// Charts of a page: their series as data, how they are thinned out, and their place in the HTML.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace privgrad::report {

/// The most points of a series on a page.
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
  bool stepped = false;       ///< A value holds until the next point.
  bool markers = false;       ///< Only points, without a line.
};

/// One row of a chart of intervals: an arm with its mean.
struct IntervalRow {
  std::string name;
  double value = 0.0;
  double low = 0.0, high = 0.0;  ///< Both equal to value if no interval is known.
};

struct Chart {
  std::string id;  ///< Letters, digits and '-'; unique on the page.
  std::string title;
  std::string x, y;  ///< The titles of the axes.
  std::string says;  ///< Its message to readers, in a sentence or two.
  std::vector<Series> series{};
  std::vector<IntervalRow> rows{};  ///< If not empty: a chart of intervals, one row each.
  std::vector<std::pair<std::string, double>> levels{};  ///< Horizontal (rows: vertical) lines.
  bool from_zero = false;                                ///< Whether the y axis begins at 0.
  bool share = false;                                    ///< Whether y is in [0, 1].
};

/// The charts of a page: their places in it, and their data.
class Charts {
 public:
  /// \returns the figure; "" if there is nothing to draw.
  std::string add(Chart chart);
  const nlohmann::json& data() const { return data_; }
  /// The charts that are drawn, in order.
  const std::vector<Chart>& drawn() const { return drawn_; }

 private:
  std::vector<Chart> drawn_;
  nlohmann::json data_ = nlohmann::json::array();
};

/// Keeps fewer points that look about the same: the smallest and the largest of each part, the
/// first and the last.
/// \returns whether some were left out.
bool thin(std::vector<Point>& points);

/// Adds a series; identical lines become one, with all their names.
void add_or_name(std::vector<Series>& all, Series series);

/// The single value that all points of all lines share, so that no chart is needed; nothing if
/// there are two values, or no points.
std::optional<double> only_value(const std::vector<Series>& all);

}  // namespace privgrad::report
