#include "markdown.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "chart.hpp"
#include "influence_page.hpp"
#include "privgrad/error.hpp"
#include "privgrad/record/short_numbers.hpp"
#include "record.hpp"
#include "step_range.hpp"
#include "study_record.hpp"
#include "svg_chart.hpp"

namespace privgrad::report {
namespace {

namespace fs = std::filesystem;
using core::short_bound;
using core::short_number;

/// Escapes a text of a record, so that Markdown shows it as plain text, even in a table's cell.
std::string plain(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (std::string_view("\\`*_[]<>|#!").find(c) != std::string_view::npos) safe += '\\';
    safe += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return safe;
}

std::string row(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += " " + cell + " |";
  return text + "\n";
}

std::string head(const std::vector<std::string>& cells) {
  std::string text = row(cells) + "|";
  for (std::size_t i = 0; i < cells.size(); ++i) text += i == 0 ? "---|" : "---:|";
  return text + "\n";
}

std::string interval(double low, double high, int digits) {
  return "[" + short_number(low, digits) + ", " + short_number(high, digits) + "]";
}

struct Value {
  std::optional<double> mean;
  std::optional<core::Interval> ends;  ///< The ends of its 95 % interval.
};

class StudySection {
 public:
  StudySection(const fs::path& file, std::string folder)
      : folder_(std::move(folder)), results_(read_facts<core::StudyResults>(file)) {
    if (const auto& levels = results_.levels) {
      if (levels->keys.empty()) throw IoError(file.string() + ": 'levels' names no key");
      levels_title_ = title_of_key(results_.titles, levels->keys.front());
      levels_ = levels->labels;
    }
    if (arms_.empty()) throw IoError(file.string() + ": names no arms");
    for (const core::ArmResults& arm : arms_) {
      for (const auto& [metric, better] : results_.metrics)
        if (!arm.metrics.contains(metric))
          throw IoError(file.string() + ": " + arm.name + " has no " + metric);
    }
  }

  MarkdownSection section() const {
    MarkdownSection made{.text = "## " + plain(name()) + "\n\n" + facts(), .pictures = {}};
    for (const std::string& stain : results_.stains) made.text += "Note: " + plain(stain) + ".\n\n";
    for (const std::string& words : results_.search_words) made.text += plain(words) + "\n\n";
    made.text += table();
    for (const core::ArmResults& arm : arms_) {
      for (const auto& [status, count] : arm.statuses) {
        if (status == "completed") continue;
        made.text += plain(arm.name) + ": " + std::to_string(count) + " of " +
                     std::to_string(arm.runs) + " runs ended as " + plain(spoken(status)) + ".\n\n";
      }
    }
    for (const auto& [metric, better] : results_.metrics) {
      const Chart chart = chart_of(metric);
      std::string svg = svg_chart(chart, Place::file);
      if (svg.empty()) continue;
      std::string file = name();
      file.append("-").append(metric).append(".svg");
      made.text.append("![").append(plain(chart.title)).append("](").append(folder_);
      made.text.append("/").append(file).append(")\n\n");
      made.pictures.push_back({std::move(file), std::move(svg)});
    }
    made.text += choice();
    return made;
  }

 private:
  std::string name() const { return results_.name.empty() ? "study" : results_.name; }

  static std::string steps_of(const core::ArmResults& arm) {
    return arm.steps.empty() ? "-" : range_of({arm.steps.begin(), arm.steps.end()});
  }

  static Value mean_of(const core::ArmResults& arm, const std::string& metric) {
    const core::MeanFacts& own = arm.metrics.at(metric);
    return {own.mean, own.ci95};
  }

  /// \returns null for a baseline.
  static const core::DifferenceFacts* difference_of(const core::ArmResults& arm,
                                                    const std::string& metric) {
    const auto found = arm.versus_baseline.find(metric);
    return found == arm.versus_baseline.end() ? nullptr : &found->second;
  }

  std::string facts() const {
    const auto &epsilon = results_.target_epsilon, &delta = results_.target_delta;
    const std::size_t seeds = results_.seeds.size();
    std::string line = std::to_string(arms_.size()) + (arms_.size() == 1 ? " arm, " : " arms, ") +
                       std::to_string(seeds) + (seeds == 1 ? " seed" : " seeds");
    if (epsilon && delta) {
      line += "; every arm epsilon at most " + short_bound(*epsilon) + " at delta " +
              short_number(*delta) + ", " + results_.adjacency.value_or("");
    } else if (!levels_.empty() && results_.stains.empty()) {
      line += "; arms at the same " + plain(levels_title_) + " have the same guarantee";
    }
    return line +
           ". Means with 95 % intervals; differences are paired by seed, p by Student's t after "
           "Holm's correction." +
           provenance() + "\n\n";
  }

  /// States the study's commit, and links to copies of all results beside the page.
  std::string provenance() const {
    if (!results_.commit) return "";
    const std::string place = folder_ + "/" + name();
    return " Commit `" + plain(results_.commit->substr(0, 12)) + "`; every run: [CSV](" + place +
           ".csv), [JSON](" + place + ".json).";
  }

  std::string table() const {
    std::vector<std::string> heading{"arm", "steps"};
    for (const auto& [metric, better] : results_.metrics) {
      heading.push_back(spoken(metric));
      heading.push_back("difference");
      heading.push_back("p");
    }
    std::string text = head(heading);
    for (const core::ArmResults& arm : arms_) {
      std::vector<std::string> cells{plain(arm.name), steps_of(arm)};
      for (const auto& [metric, better] : results_.metrics) add_cells(cells, arm, metric);
      text += row(cells);
    }
    if (arms_.size() == 1) return text + "\n";
    text += "\nCompared with " + plain(results_.baseline);
    if (!levels_.empty()) text += ", at the same " + plain(levels_title_);
    return text + ".\n\n";
  }

  static std::string with_interval(const Value& value, int digits) {
    if (!value.mean) return "-";
    return short_number(*value.mean, digits) +
           (value.ends ? " " + interval((*value.ends)[0], (*value.ends)[1], digits) : "");
  }

  static void add_cells(std::vector<std::string>& cells, const core::ArmResults& arm,
                        const std::string& metric) {
    cells.push_back(with_interval(mean_of(arm, metric), 5));
    const auto* versus = difference_of(arm, metric);
    cells.push_back(versus ? with_interval({versus->difference, versus->ci95}, 3) : "-");
    cells.push_back(versus && versus->p_holm ? short_bound(*versus->p_holm, 2) : "-");
  }

  /// Draws the differences from the baseline: as curves over the levels if these are numbers,
  /// otherwise in one row per arm. If there are no differences, the rows show the means.
  Chart chart_of(const std::string& metric) const {
    const bool over_numbers = levels_.size() > 1 && numbers_of(levels_).has_value();
    const std::string what = "difference in " + spoken(metric) + " to " + results_.baseline;
    if (over_numbers) return curves(metric, what);
    const bool compares = std::ranges::any_of(
        arms_, [&](const auto& arm) { return difference_of(arm, metric) != nullptr; });
    return rows(metric, compares, compares ? what : spoken(metric));
  }

  Chart rows(const std::string& metric, bool compares, const std::string& what) const {
    Chart chart{.id = metric, .title = what, .x = what, .y = "", .says = ""};
    for (const core::ArmResults& arm : arms_) {
      const auto* versus = difference_of(arm, metric);
      if (compares && versus == nullptr) continue;
      const Value value = compares ? Value{versus->difference, versus->ci95} : mean_of(arm, metric);
      if (!value.mean) continue;
      const auto [low, high] = value.ends.value_or(core::Interval{*value.mean, *value.mean});
      chart.rows.push_back({arm.name, *value.mean, low, high});
    }
    if (compares) chart.levels.push_back({"no difference", 0.0});
    return chart;
  }

  Chart curves(const std::string& metric, const std::string& what) const {
    Chart chart{.id = metric,
                .title = what + " by " + levels_title_,
                .x = levels_title_,
                .y = "difference in " + spoken(metric),
                .says = ""};
    std::map<std::string, std::map<double, const core::DifferenceFacts*>> lines;
    for (const core::ArmResults& arm : arms_) {
      const auto* versus = difference_of(arm, metric);
      if (versus == nullptr || !versus->difference) continue;
      const double level = numbers_of({arm.level.value_or("")}).value_or(std::vector{0.0}).front();
      lines[arm.variant.empty() ? arm.name : arm.variant][level] = versus;
    }
    for (const auto& [name, points] : lines) {
      Series series{.name = name, .points = {}};
      for (const auto& [x, value] : points) {
        series.points.push_back({x, *value->difference});
        if (const auto& ends = value->ci95) series.bands.push_back({x, (*ends)[0], (*ends)[1]});
      }
      if (series.bands.size() != series.points.size()) series.bands.clear();
      chart.series.push_back(std::move(series));
    }
    chart.levels.push_back({"no difference", 0.0});
    return chart;
  }

  std::string choice() const {
    std::string all;
    for (const std::string& words : results_.choice.words)
      all += (all.empty() ? "" : " ") + plain(words);
    return all.empty() ? "" : "Choosing: " + all + "\n\n";
  }

  const std::string folder_;
  const core::StudyResults results_;
  const std::vector<core::ArmResults>& arms_ = results_.arms;
  std::string levels_title_;
  core::Texts levels_;
};

MarkdownSection influence_section(const fs::path& source, const std::string& name,
                                  const std::string& folder) {
  const InfluenceChart made = influence_chart(source);
  const std::string file = name + "-influence.svg";
  std::string table = head({"step", "influence", "standard error"});
  const std::size_t every = made.estimates.size() / 12 + 1;
  for (std::size_t i = 0; i < made.estimates.size(); ++i) {
    if (i % every != 0 && i + 1 != made.estimates.size()) continue;
    const InfluenceEstimate& one = made.estimates[i];
    table += row({std::to_string(one.step), short_number(one.influence),
                  one.standard_error > 0.0 ? short_number(one.standard_error) : "-"});
  }
  return {
      .text = "## " + plain(name) + "\n\nInfluence of each step's noise, by " + plain(made.method) +
              " on " + (made.own_data ? "the private rows (unaccounted)" : "auxiliary data") +
              (made.gamma ? ". Nearest exponential: gamma = " + short_number(*made.gamma, 5) : "") +
              ".\n\n" + (made.within_noise.empty() ? "" : plain(made.within_noise) + ".\n\n") +
              table + "\n![" + plain(made.chart.title) + "](" + folder + "/" + file + ")\n\n",
      .pictures = {{file, svg_chart(made.chart, Place::file)}}};
}

}  // namespace

MarkdownSection markdown_section(const Finding& finding, const std::string& folder) {
  if (finding.is_influence) return influence_section(finding.file, finding.name, folder);
  return StudySection(finding.file, folder).section();
}

std::vector<Finding> findings_in(const fs::path& directory) {
  std::vector<Finding> findings;
  const auto add_directory = [&](const fs::path& one) {
    const std::string name = one.filename().string();
    // A study estimates the influence, so such a folder has a study.json, but no results.json.
    if (fs::exists(one / "influence.json")) {
      findings.push_back({name, one / "influence.json", true});
    } else if (fs::exists(one / "results.json")) {
      findings.push_back({name, one / "results.json", false});
    } else if (fs::exists(one / "study.json")) {
      throw ConfigError(one.string() + ": is a study that is not finished");
    }
  };
  add_directory(directory);
  if (!findings.empty()) return findings;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.is_directory()) add_directory(entry.path());
    if (entry.path().extension() != ".json") continue;
    const bool is_influence = read_object(entry.path()).contains("estimates");
    findings.push_back({entry.path().stem().string(), entry.path(), is_influence});
  }
  std::ranges::sort(findings, [](const Finding& a, const Finding& b) { return a.name < b.name; });
  if (findings.empty())
    throw ConfigError(directory.string() + ": holds neither studies nor estimates of influence");
  return findings;
}

}  // namespace privgrad::report
