#include "markdown.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
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
using Json = nlohmann::json;
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
  std::optional<std::pair<double, double>> ends;  ///< The ends of its 95 % interval.
};

struct ArmRow {
  std::string name, variant, level;
  std::string steps;                 ///< The number of steps of its runs.
  std::vector<std::string> unusual;  ///< "3 of 20 runs diverged".
  /// The values by metric; a baseline has no differences.
  std::map<std::string, Value> means, differences;
  std::map<std::string, std::optional<double>> p;  ///< The p values after Holm's correction.
};

class StudySection {
 public:
  StudySection(const fs::path& file, std::string folder)
      : source_(file.string()), folder_(std::move(folder)), results_(read_object(file)) {
    for (const Json& metric : list(results_, "metrics", source_))
      metrics_.push_back(text(metric, "name", source_).value_or(""));
    name_ = text(results_, "name", source_).value_or("study");
    baseline_ = text(results_, "baseline", source_).value_or("");
    read_levels();
    for (const Json& entry : objects(results_, "arms", source_)) arms_.push_back(arm_of(entry));
    if (arms_.empty()) throw IoError(source_ + ": names no arms");
  }

  MarkdownSection section() const {
    MarkdownSection made{.text = "## " + plain(name_) + "\n\n" + facts(), .pictures = {}};
    for (const std::string& stain : texts(results_, "stains", source_))
      made.text += "Note: " + plain(stain) + ".\n\n";
    for (const std::string& words : texts(results_, "search_words", source_))
      made.text += plain(words) + "\n\n";
    made.text += table();
    for (const ArmRow& arm : arms_) {
      for (const std::string& what : arm.unusual)
        made.text += plain(arm.name) + ": " + plain(what) + ".\n\n";
    }
    for (const std::string& metric : metrics_) {
      const Chart chart = chart_of(metric);
      std::string svg = svg_chart(chart, Place::file);
      if (svg.empty()) continue;
      std::string file = name_;
      file.append("-").append(metric).append(".svg");
      made.text.append("![").append(plain(chart.title)).append("](").append(folder_);
      made.text.append("/").append(file).append(")\n\n");
      made.pictures.push_back({std::move(file), std::move(svg)});
    }
    made.text += choice();
    return made;
  }

 private:
  void read_levels() {
    const auto found = results_.find("levels");
    if (found == results_.end() || found->is_null()) return;
    if (!found->is_object()) throw IoError(source_ + ": 'levels' is not an object");
    const std::vector<std::string> keys = texts(*found, "keys", source_);
    if (keys.empty()) throw IoError(source_ + ": 'levels' names no key");
    levels_title_ = title_of_key(members(results_, "titles", source_), keys.front());
    levels_ = texts(*found, "labels", source_);
  }

  Value value_of(const Json& entry, const char* key) const {
    Value value{.mean = number(entry, key, source_), .ends = {}};
    const Json& ci = list(entry, "ci95", source_);
    if (ci.size() == 2 && ci[0].is_number() && ci[1].is_number())
      value.ends = {ci[0].get<double>(), ci[1].get<double>()};
    return value;
  }

  ArmRow arm_of(const Json& entry) const {
    ArmRow arm;
    arm.name = text(entry, "name", source_).value_or("?");
    arm.variant = text(entry, "variant", source_).value_or(arm.name);
    if (!levels_.empty()) arm.level = text(entry, "level", source_).value_or("");
    arm.steps = steps_of(entry);
    for (const auto& [status, count] : members(entry, "statuses", source_).items()) {
      if (status == "completed" || !count.is_number()) continue;
      arm.unusual.push_back(count.dump() + " of " + digits_of(entry, "runs") + " runs ended as " +
                            spoken(status));
    }
    for (const std::string& metric : metrics_) {
      const Json& own = members(members(entry, "metrics", source_), metric.c_str(), source_);
      if (!own.contains("mean")) throw IoError(source_ + ": " + arm.name + " has no " + metric);
      arm.means[metric] = value_of(own, "mean");
      const Json& versus = members(entry, "versus_baseline", source_);
      if (!versus.contains(metric)) continue;
      const Json& difference = members(versus, metric.c_str(), source_);
      arm.differences[metric] = value_of(difference, "difference");
      arm.p[metric] = number(difference, "p_holm", source_);
    }
    return arm;
  }

  std::string digits_of(const Json& entry, const char* key) const {
    const auto value = number(entry, key, source_);
    return value ? short_number(*value, 15) : "?";
  }

  std::string steps_of(const Json& entry) const {
    std::vector<double> made;
    for (const Json& steps : list(entry, "steps", source_)) {
      if (!steps.is_number())
        throw IoError(source_ + ": 'steps' holds something that is not a number");
      made.push_back(steps.get<double>());
    }
    return made.empty() ? "-" : range_of(made);
  }

  std::string facts() const {
    const auto epsilon = number(results_, "target_epsilon", source_);
    const auto delta = number(results_, "target_delta", source_);
    const std::size_t seeds = list(results_, "seeds", source_).size();
    std::string line = std::to_string(arms_.size()) + (arms_.size() == 1 ? " arm, " : " arms, ") +
                       std::to_string(seeds) + (seeds == 1 ? " seed" : " seeds");
    if (epsilon && delta) {
      line += "; every arm epsilon at most " + short_number(*epsilon) + " at delta " +
              short_number(*delta) + ", " + text(results_, "adjacency", source_).value_or("");
    } else if (!levels_.empty() && texts(results_, "stains", source_).empty()) {
      line += "; arms at the same " + plain(levels_title_) + " have the same guarantee";
    }
    return line +
           ". Means with 95 % intervals; differences are paired by seed, p by Student's t after "
           "Holm's correction." +
           provenance() + "\n\n";
  }

  /// States the commit behind the numbers, with links to copies of all results beside the page.
  std::string provenance() const {
    const auto commit = text(results_, "commit", source_);
    if (!commit) return "";
    const std::string place = folder_ + "/" + name_;
    return " Commit `" + plain(commit->substr(0, 12)) + "`; every run: [CSV](" + place +
           ".csv), [JSON](" + place + ".json).";
  }

  std::string table() const {
    std::vector<std::string> heading{"arm", "steps"};
    for (const std::string& metric : metrics_) {
      heading.push_back(spoken(metric));
      heading.push_back("difference");
      heading.push_back("p");
    }
    std::string text = head(heading);
    for (const ArmRow& arm : arms_) {
      std::vector<std::string> cells{plain(arm.name), arm.steps};
      for (const std::string& metric : metrics_) add_cells(cells, arm, metric);
      text += row(cells);
    }
    if (arms_.size() == 1) return text + "\n";
    text += "\nCompared with " + plain(baseline_);
    if (!levels_.empty()) text += ", at the same " + plain(levels_title_);
    return text + ".\n\n";
  }

  static std::string with_interval(const Value& value, int digits) {
    if (!value.mean) return "-";
    return short_number(*value.mean, digits) +
           (value.ends ? " " + interval(value.ends->first, value.ends->second, digits) : "");
  }

  static void add_cells(std::vector<std::string>& cells, const ArmRow& arm,
                        const std::string& metric) {
    cells.push_back(with_interval(arm.means.at(metric), 5));
    const auto difference = arm.differences.find(metric);
    if (difference == arm.differences.end()) {
      cells.insert(cells.end(), {"-", "-"});
      return;
    }
    cells.push_back(with_interval(difference->second, 3));
    const auto& p = arm.p.at(metric);
    cells.push_back(p ? short_bound(*p, 2) : "-");
  }

  /// Draws the differences from the baseline: as curves over the levels if these are numbers,
  /// otherwise in one row per arm. If there are no differences, the rows show the means.
  Chart chart_of(const std::string& metric) const {
    const bool over_numbers = levels_.size() > 1 && numbers_of(levels_).has_value();
    const std::string what = "difference in " + spoken(metric) + " to " + baseline_;
    if (over_numbers) return curves(metric, what);
    const bool compares = std::ranges::any_of(
        arms_, [&](const ArmRow& arm) { return arm.differences.contains(metric); });
    return rows(metric, compares, compares ? what : spoken(metric));
  }

  Chart rows(const std::string& metric, bool compares, const std::string& what) const {
    Chart chart{.id = metric, .title = what, .x = what, .y = "", .says = ""};
    for (const ArmRow& arm : arms_) {
      if (compares && !arm.differences.contains(metric)) continue;
      const Value& value = compares ? arm.differences.at(metric) : arm.means.at(metric);
      if (!value.mean) continue;
      const auto [low, high] = value.ends.value_or(std::pair{*value.mean, *value.mean});
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
    std::map<std::string, std::map<double, const Value*>> lines;
    for (const ArmRow& arm : arms_) {
      const auto difference = arm.differences.find(metric);
      if (difference == arm.differences.end() || !difference->second.mean) continue;
      lines[arm.variant][numbers_of({arm.level}).value_or(std::vector{0.0}).front()] =
          &difference->second;
    }
    for (const auto& [name, points] : lines) {
      Series series{.name = name, .points = {}};
      for (const auto& [x, value] : points) {
        series.points.push_back({x, *value->mean});
        if (value->ends) series.bands.push_back({x, value->ends->first, value->ends->second});
      }
      if (series.bands.size() != series.points.size()) series.bands.clear();
      chart.series.push_back(std::move(series));
    }
    chart.levels.push_back({"no difference", 0.0});
    return chart;
  }

  std::string choice() const {
    std::string all;
    for (const std::string& words : texts(members(results_, "choice", source_), "words", source_))
      all += (all.empty() ? "" : " ") + plain(words);
    return all.empty() ? "" : "Choosing: " + all + "\n\n";
  }

  std::string source_, folder_, name_;
  Json results_;
  std::vector<std::string> metrics_, levels_;
  std::string baseline_, levels_title_;
  std::vector<ArmRow> arms_;
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
    // An estimate is made by a study, so its folder has a study.json, but no results.json.
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
