#include "factors_section.hpp"

#include <algorithm>

#include "digits.hpp"
#include "heat_map.hpp"
#include "html.hpp"
#include "privgrad/error.hpp"

namespace privgrad::report {
namespace {

using core::short_bound;

constexpr std::size_t kMostPairs = 6;  // pairs of factors with a chart
constexpr std::size_t kMostLines = 8;  // lines in a chart
constexpr double kLevel = 0.05;

class FactorsSection {
 public:
  FactorsSection(const StudyRecord& study, Charts& charts) : study_(study), charts_(charts) {}

  std::string html() {
    std::string body;
    for (const std::string& metric : study_.metrics) body += of_metric(metric);
    if (body.empty()) return "";
    return section(
        "factors", "What each axis changes",
        paragraph(
            "Each mean is over the seeds and over all values of the other axes. Intervals of "
            "one axis hold together with 95 %; p is after Holm's correction over all axes and "
            "pairs.") +
            body);
  }

 private:
  std::string of_metric(const std::string& metric) {
    const auto factors = study_.results.factors.find(metric);
    if (factors == study_.results.factors.end() || !factors->second) return heat_map(metric);
    std::string figures;
    for (const core::MainEffect& main : factors->second->main) figures += main_effect(main, metric);
    std::string html = "<div class=\"charts\">\n" + figures + "</div>\n" + heat_map(metric);
    return html + interactions(factors->second->interactions, metric);
  }

  static std::string p_words(const auto& test) {
    return test.p_holm ? short_bound(*test.p_holm, 2) : "not known";
  }

  static std::string combinations(core::Count count) {
    return std::to_string(count) + (count == 1 ? " combination" : " combinations") +
           " of the other axes";
  }

  /// Shows the values of a factor, each with its mean over all other factors.
  std::string main_effect(const core::MainEffect& main, const std::string& metric) {
    const std::string name = study_.title_of(main.factor);
    Chart chart{.id = "factor-" + std::to_string(++drawn_),
                .title = "Mean " + spoken(metric) + " by " + name,
                .x = spoken(metric),
                .y = "",
                .says = "Over " + combinations(main.combinations) +
                        ". p of no difference: " + p_words(main) + "."};
    const bool is_coloured = is_colour_factor(main.factor);
    std::size_t place = 0;
    for (const core::FactorValue& value : main.values) {
      const std::size_t colour = is_coloured ? place : 0;
      ++place;
      if (!value.mean) continue;
      const auto [low, high] = value.ci95.value_or(core::Interval{*value.mean, *value.mean});
      chart.rows.push_back({value.label, *value.mean, low, high, colour});
    }
    return charts_.add(std::move(chart));
  }

  /// Whether this factor's values determine the colours of the arms.
  bool is_colour_factor(const std::string& key) const {
    for (const Factor& factor : study_.factors())
      if (factor.labels.size() <= 7) return factor.key == key;
    return false;
  }

  /// Shows the mean of each pair of values, for a study with two axes.
  std::string heat_map(const std::string& metric) const {
    const std::vector<Factor> factors = study_.factors();
    if (factors.size() != 2 || study_.has_levels()) return "";
    HeatMap map{.caption = "Mean " + spoken(metric) + " at each pair of values.",
                .row_axis = study_.title_of(factors[0].key),
                .column_axis = study_.title_of(factors[1].key),
                .rows = factors[0].labels,
                .columns = factors[1].labels,
                .values = {},
                .higher_is_better = study_.better_is_higher(metric)};
    map.values.assign(map.rows.size(), std::vector<std::optional<double>>(map.columns.size()));
    for (const Arm& arm : study_.arms) {
      const auto row = place_of(arm, factors[0]), column = place_of(arm, factors[1]);
      if (row && column) map.values[*row][*column] = study_.mean_of(arm, metric).mean;
    }
    return report::html(map);
  }

  std::optional<std::size_t> place_of(const Arm& arm, const Factor& factor) const {
    const auto label = arm.labels.find(factor.key);
    if (label == arm.labels.end()) return std::nullopt;
    const auto at = std::ranges::find(factor.labels, label->second);
    if (at == factor.labels.end()) return std::nullopt;
    return static_cast<std::size_t>(at - factor.labels.begin());
  }

  /// Shows a table of all pairs, and a chart of each pair that interacts. In a study with levels, a
  /// single pair always has a chart.
  std::string interactions(const std::vector<core::Interaction>& pairs, const std::string& metric) {
    HtmlTable table("Whether the effect of one axis on " + spoken(metric) +
                        " depends on the value of another: t tests of the differences of "
                        "differences over seeds.",
                    {"axes", "combinations of the others", "p", "p (Holm)"},
                    {false, true, true, true});
    std::string figures;
    std::size_t charts = 0;
    for (const core::Interaction& pair : pairs) {
      const core::Texts& keys = pair.factors;
      if (keys.size() != 2) throw IoError("results.json: 'factors' does not name a pair");
      table.add({study_.title_of(keys[0]) + ", " + study_.title_of(keys[1]),
                 std::to_string(pair.combinations), pair.p ? short_bound(*pair.p, 2) : "-",
                 p_words(pair)});
      // For two axes without levels, the heat map already shows the pair.
      const bool is_single = pairs.size() == 1 && study_.has_levels();
      const bool is_found = pair.p_holm && *pair.p_holm < kLevel;
      const bool is_shown = is_single || (is_found && charts < kMostPairs);
      if (!is_shown) continue;
      ++charts;
      figures += lines(pair, metric);
    }
    if (table.empty()) return "";
    return (figures.empty() ? "" : "<div class=\"charts\">\n" + figures + "</div>\n") +
           table.html();
  }

  std::vector<std::string> labels_of(const std::string& key) const {
    for (const Factor& factor : study_.factors())
      if (factor.key == key) return factor.labels;
    return study_.study.levels.value_or(core::AxisFacts()).labels;
  }

  /// Draws a line for each value of the axis with fewer values, over the values of the other axis.
  std::string lines(const core::Interaction& pair, const std::string& metric) {
    core::Texts keys = pair.factors;
    std::vector<std::string> along = labels_of(keys[0]), each = labels_of(keys[1]);
    const bool is_swapped = along.size() < each.size();
    if (is_swapped) {
      std::swap(along, each);
      std::swap(keys[0], keys[1]);
    }
    const auto mean_at = [&](std::size_t x, std::size_t line) -> std::optional<double> {
      const std::size_t row = is_swapped ? line : x, column = is_swapped ? x : line;
      if (row >= pair.means.size() || column >= pair.means[row].size()) return std::nullopt;
      return pair.means[row][column];
    };
    Chart chart{
        .id = "pair-" + std::to_string(++drawn_),
        .title = "Mean " + spoken(metric) + " by " + study_.title_of(keys[0]) + " and " +
                 study_.title_of(keys[1]),
        .x = study_.title_of(keys[0]),
        .y = spoken(metric),
        .says = std::string("Parallel lines: the axes do not interact. p of no interaction: ") +
                p_words(pair) + "." +
                (each.size() > kMostLines ? " The first " + std::to_string(kMostLines) + " of " +
                                                std::to_string(each.size()) + " values are drawn."
                                          : "")};
    const auto numbers = numbers_of(along);
    chart.log_x = numbers && is_logarithmic(*numbers);
    if (!numbers) chart.categories = along;
    const bool is_coloured = is_colour_factor(keys[1]);
    for (std::size_t line = 0; line < std::min(each.size(), kMostLines); ++line) {
      Series series{.name = study_.title_of(keys[1]) + " " + each[line], .points = {}};
      if (is_coloured) series.colour = line;
      for (std::size_t x = 0; x < along.size(); ++x) {
        const auto mean = mean_at(x, line);
        if (mean)
          series.points.push_back({numbers ? (*numbers)[x] : static_cast<double>(x), *mean});
      }
      std::ranges::sort(series.points, [](const Point& a, const Point& b) { return a.x < b.x; });
      chart.series.push_back(std::move(series));
    }
    return charts_.add(std::move(chart));
  }

  const StudyRecord& study_;
  Charts& charts_;
  int drawn_ = 0;
};

}  // namespace

std::string factors_section(const StudyRecord& study, Charts& charts) {
  return FactorsSection(study, charts).html();
}

}  // namespace privgrad::report
