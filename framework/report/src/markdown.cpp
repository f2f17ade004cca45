#include "markdown.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "chart.hpp"
#include "influence_page.hpp"
#include "privgrad/error.hpp"
#include "privgrad/record/short_numbers.hpp"
#include "privgrad/statistics/paired_statistics.hpp"
#include "record.hpp"
#include "step_range.hpp"
#include "study_page.hpp"
#include "svg_chart.hpp"

namespace privgrad::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using core::short_bound;
using core::short_number;

/// Text of a record as text of a table: no markup, no new cell.
std::string plain(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (std::string_view("\\`*_[]<>|#!").find(c) != std::string_view::npos) safe += '\\';
    safe += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return safe;
}

std::string spoken(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::optional<double> as_number(const std::string& text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size()) return value;
  return std::nullopt;
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

struct Arm {
  std::string name;
  std::map<std::string, std::string> labels;
  std::string steps;                                  ///< Made by its runs.
  std::map<std::string, std::vector<double>> values;  ///< Per metric, one per seed.
};

class StudySection {
 public:
  StudySection(const fs::path& directory, std::string folder)
      : source_((directory / "results.json").string()), folder_(std::move(folder)) {
    if (!fs::exists(directory / "results.json"))
      throw ConfigError(directory.string() + ": is a study that is not finished");
    results_ = read_object(directory / "results.json");
    study_ = read_object(directory / "study.json");
    for (const Json& metric : list(results_, "metrics", source_))
      metrics_.push_back(text(metric, "name", source_).value_or(""));
    read_arms();
    find_numbers();
  }

  MarkdownSection section() {
    const std::string name = text(results_, "name", source_).value_or("study");
    MarkdownSection made{.text = "## " + plain(name) + "\n\n" + facts(), .pictures = {}};
    for (const std::string& stain : texts(results_, "stains", source_))
      made.text += "Note: " + plain(stain) + ".\n\n";
    made.text += table();
    for (const std::string& metric : metrics_) {
      const Chart chart = numbers_key_.empty() ? intervals(metric) : curves(metric);
      std::string svg = svg_chart(chart);
      if (svg.empty()) continue;
      std::string file = name;
      file.append("-").append(metric).append(".svg");
      made.text.append("![").append(plain(chart.title)).append("](").append(folder_);
      made.text.append("/").append(file).append(")\n\n");
      made.pictures.push_back({std::move(file), std::move(svg)});
    }
    made.text += choice();
    return made;
  }

 private:
  void read_arms() {
    for (const Json& entry : list(results_, "arms", source_)) {
      Arm arm{.name = text(entry, "name", source_).value_or("?"),
              .labels = {},
              .steps = steps_of(entry),
              .values = {}};
      for (const auto& [key, label] : members(entry, "labels", source_).items())
        if (label.is_string()) arm.labels[key] = label.get<std::string>();
      const Json& metrics = members(entry, "metrics", source_);
      for (const std::string& metric : metrics_) {
        for (const Json& value :
             list(members(metrics, metric.c_str(), source_), "values", source_)) {
          if (!value.is_number())
            throw IoError(source_ + ": a value of " + arm.name + " is missing");
          arm.values[metric].push_back(value.get<double>());
        }
        if (arm.values[metric].empty())
          throw IoError(source_ + ": " + arm.name + " has no " + metric);
      }
      arms_.push_back(std::move(arm));
    }
    if (arms_.empty()) throw IoError(source_ + ": names no arms");
    const auto named = text(results_, "baseline", source_);
    for (const Arm& arm : arms_) {
      if (arm.name == named) baseline_ = &arm;
    }
    if (baseline_ == nullptr) baseline_ = &arms_.front();
  }

  std::string steps_of(const Json& entry) const {
    std::vector<double> made;
    for (const Json& steps : list(entry, "steps", source_)) {
      if (!steps.is_number()) throw IoError(source_ + ": 'steps' holds what is no number");
      made.push_back(steps.get<double>());
    }
    return made.empty() ? "-" : range_of(made);
  }

  /// The key along which arms are drawn: the first whose labels are numbers, at least three of
  /// them; one that follows another only where there is no other.
  void find_numbers() {
    std::map<std::string, std::map<double, int>> seen;
    std::map<std::string, bool> all_numbers;
    for (const Arm& arm : arms_) {
      for (const auto& [key, label] : arm.labels) {
        const auto value = as_number(label);
        all_numbers.try_emplace(key, true);
        if (value) ++seen[key][*value];
        if (!value) all_numbers[key] = false;
      }
    }
    for (const auto& [key, numbers] : all_numbers) {
      if (!numbers) continue;
      numeric_keys_.push_back(key);
      if (seen[key].size() < 3) continue;
      if (numbers_key_.empty() || (follows_another(numbers_key_) && !follows_another(key)))
        numbers_key_ = key;
    }
  }

  bool is_numeric(const std::string& key) const {
    return std::find(numeric_keys_.begin(), numeric_keys_.end(), key) != numeric_keys_.end();
  }

  /// Whether the key is not the first of an axis that varies several together, under one label.
  bool follows_another(const std::string& key) const {
    for (const Json& axis : list(study_, "axes", source_)) {
      const std::vector<std::string> keys = texts(axis, "keys", source_);
      const auto place = std::find(keys.begin(), keys.end(), key);
      if (place != keys.end()) return place != keys.begin();
    }
    return false;
  }

  /// The arm that this one is compared with; nullptr for the baseline itself.
  const Arm* partner(const Arm& arm) const {
    std::map<std::string, std::string> wanted = baseline_->labels;
    for (const auto& [key, label] : arm.labels) {
      if (is_numeric(key)) wanted[key] = label;
    }
    if (arm.labels.empty()) return &arm == baseline_ ? nullptr : baseline_;
    for (const Arm& other : arms_) {
      if (other.labels == wanted) return &other == &arm ? nullptr : &other;
    }
    return &arm == baseline_ ? nullptr : baseline_;
  }

  std::string facts() const {
    const auto epsilon = number(results_, "target_epsilon", source_);
    const auto delta = number(results_, "target_delta", source_);
    std::string line = std::to_string(arms_.size()) + " arms, " +
                       std::to_string(list(results_, "seeds", source_).size()) + " seeds";
    if (epsilon && delta) {
      line += "; every arm epsilon at most " + short_number(*epsilon) + " at delta " +
              short_number(*delta) + ", " + text(results_, "adjacency", source_).value_or("");
    }
    return line +
           ". Means with 95 % intervals; differences are paired by seed, p by Student's t.\n\n";
  }

  std::string table() const {
    std::vector<std::string> heading{"arm", "steps"};
    for (const std::string& metric : metrics_) {
      heading.push_back(spoken(metric));
      heading.push_back("difference");
      heading.push_back("p");
    }
    std::string text = head(heading);
    for (const Arm& arm : arms_) {
      std::vector<std::string> cells{plain(arm.name), arm.steps};
      for (const std::string& metric : metrics_) add_cells(cells, arm, metric);
      text += row(cells);
    }
    text += "\nCompared with " + plain(baseline_->name);
    if (!numeric_keys_.empty()) text += ", at the same numbers of each axis";
    return text + ".\n\n";
  }

  void add_cells(std::vector<std::string>& cells, const Arm& arm, const std::string& metric) const {
    const std::vector<double>& values = arm.values.at(metric);
    const core::SampleSummary summary = core::summarize(values);
    cells.push_back(
        short_number(summary.mean, 5) +
        (summary.ci95 ? " " + interval((*summary.ci95)[0], (*summary.ci95)[1], 5) : ""));
    const Arm* other = partner(arm);
    if (other == nullptr) {
      cells.insert(cells.end(), {"-", "-"});
      return;
    }
    std::vector<double> differences;
    for (std::size_t i = 0; i < values.size(); ++i)
      differences.push_back(values[i] - other->values.at(metric).at(i));
    const core::PairedComparison comparison = core::compare_with_zero(differences);
    const auto& ci = comparison.difference.ci95;
    cells.push_back(short_number(comparison.difference.mean, 3) +
                    (ci ? " " + interval((*ci)[0], (*ci)[1], 3) : ""));
    cells.push_back(comparison.p ? short_bound(*comparison.p, 2) : "-");
  }

  Chart intervals(const std::string& metric) const {
    Chart chart{.id = metric, .title = spoken(metric), .x = spoken(metric), .y = "", .says = ""};
    for (const Arm& arm : arms_) {
      const core::SampleSummary summary = core::summarize(arm.values.at(metric));
      const double low = summary.ci95 ? (*summary.ci95)[0] : summary.mean;
      const double high = summary.ci95 ? (*summary.ci95)[1] : summary.mean;
      chart.rows.push_back({arm.name, summary.mean, low, high});
    }
    return chart;
  }

  Chart curves(const std::string& metric) const {
    Chart chart{.id = metric,
                .title = spoken(metric) + " by " + numbers_key_,
                .x = numbers_key_,
                .y = spoken(metric),
                .says = ""};
    std::map<std::string, std::map<double, core::SampleSummary>> lines;
    for (const Arm& arm : arms_) {
      const auto at = arm.labels.find(numbers_key_);
      if (at == arm.labels.end()) continue;
      std::string name;
      for (const auto& [key, label] : arm.labels) {
        if (key != numbers_key_ && !follows_another(key))
          name += (name.empty() ? "" : ", ") + label;
      }
      lines[name.empty() ? metric : name][*as_number(at->second)] =
          core::summarize(arm.values.at(metric));
    }
    for (const auto& [name, points] : lines) {
      Series series{.name = name, .points = {}};
      for (const auto& [x, summary] : points) {
        series.points.push_back({x, summary.mean});
        if (summary.ci95) series.bands.push_back({x, (*summary.ci95)[0], (*summary.ci95)[1]});
      }
      if (series.bands.size() != series.points.size()) series.bands.clear();
      chart.series.push_back(std::move(series));
    }
    return chart;
  }

  std::string choice() const {
    std::string all;
    for (const std::string& words : texts(members(results_, "choice", source_), "words", source_))
      all += (all.empty() ? "" : " ") + plain(words);
    return all.empty() ? "" : "Choosing: " + all + "\n\n";
  }

  std::string source_, folder_;
  Json results_, study_;
  std::vector<std::string> metrics_, numeric_keys_;
  std::string numbers_key_;
  std::vector<Arm> arms_;
  const Arm* baseline_ = nullptr;
};

MarkdownSection influence_section(const fs::path& directory, const std::string& folder) {
  const InfluenceChart made = influence_chart(directory);
  const std::string file = directory.filename().string() + "-influence.svg";
  std::string table = head({"step", "influence", "standard error"});
  const std::size_t every = made.estimates.size() / 12 + 1;
  for (std::size_t i = 0; i < made.estimates.size(); ++i) {
    if (i % every != 0 && i + 1 != made.estimates.size()) continue;
    const InfluenceEstimate& one = made.estimates[i];
    table += row({std::to_string(one.step), short_number(one.influence),
                  one.standard_error > 0.0 ? short_number(one.standard_error) : "-"});
  }
  return {
      .text = "## " + plain(directory.filename().string()) +
              "\n\nInfluence of each step's noise, by " + plain(made.method) + " on " +
              (made.own_data ? "the private rows (unaccounted)" : "auxiliary data") +
              (made.gamma ? ". Nearest exponential: gamma = " + short_number(*made.gamma, 5) : "") +
              ".\n\n" + (made.within_noise.empty() ? "" : plain(made.within_noise) + ".\n\n") +
              table + "\n![" + plain(made.chart.title) + "](" + folder + "/" + file + ")\n\n",
      .pictures = {{file, svg_chart(made.chart)}}};
}

}  // namespace

MarkdownSection markdown_section(const fs::path& directory, const std::string& folder) {
  if (is_influence(directory)) return influence_section(directory, folder);
  if (is_study(directory)) return StudySection(directory, folder).section();
  throw ConfigError(directory.string() +
                    ": holds neither a study (study.json) nor an estimate (influence.json)");
}

}  // namespace privgrad::report
