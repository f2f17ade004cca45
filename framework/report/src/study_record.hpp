// The files in a study's directory: its plan, its results, and the records of its arms' runs.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chart.hpp"
#include "privgrad/record/study_facts.hpp"
#include "privgrad/statistics/paired_statistics.hpp"
#include "record.hpp"

namespace privgrad::report {

/// The most curves of a chart; more could not be distinguished.
inline constexpr std::size_t kMostCurves = 8;

/// An arm of a study, with the records of its runs.
struct Arm : core::PlannedArmFacts {
  std::vector<std::string> run_paths{};  ///< One per run, below the study's directory, with '/'.
  std::vector<RunRecord> runs{};         ///< The finished runs.
  std::size_t colour = 0;                ///< The arm's colour in all charts of the page.
  std::size_t of_level = 0;              ///< As `colour`, but different for each level.
};

/// A factor that varies in a study: an axis, or the levels.
struct Factor {
  std::string key;  ///< The key, or the first of several keys that vary together.
  std::vector<std::string> labels;
};

/// A name in words: "test accuracy" for test_accuracy.
std::string spoken(std::string name);

/// The name of a varying key for readers: its title in the study, or the last part of the key.
std::string title_of_key(const core::Named<core::Text>& titles, const std::string& key);

/// The labels as numbers; nothing if a label is not a number.
std::optional<std::vector<double>> numbers_of(const std::vector<std::string>& labels);

/// Whether a logarithmic axis suits these numbers: all are positive, and they are far apart.
bool is_logarithmic(const std::vector<double>& values);

class StudyRecord {
 public:
  /// \throws IoError for the same faults as read_run().
  explicit StudyRecord(const std::filesystem::path& directory);

  std::string name() const { return study.name.empty() ? "study" : study.name; }
  bool has_levels() const { return study.levels.has_value(); }
  /// Whether the arm is a baseline; in a study with levels, each level has one.
  bool is_baseline(const Arm& arm) const { return arm.variant == study.baseline; }
  std::string baseline_words() const;

  /// mean_of() returns the mean of a metric over an arm's runs, and difference_of() its difference
  /// to the baseline; both are empty if there are no results.
  const core::MeanFacts& mean_of(const Arm& arm, const std::string& metric) const;
  const core::DifferenceFacts& difference_of(const Arm& arm, const std::string& metric) const;
  bool better_is_higher(const std::string& metric) const;

  /// Axes with at least two values, without the levels.
  std::vector<Factor> factors() const;
  std::string title_of(const std::string& key) const;

  /// The arms that charts over the steps show: all arms with own runs if there are few; otherwise
  /// the baseline, the references, the arms that the study names, and the best arms.
  std::vector<const Arm*> curves() const;

  const std::string study_file;
  const nlohmann::json study_json;
  const core::StudyFacts study;
  const bool has_results;
  const core::StudyResults results;  ///< Empty if there are none yet.
  std::string lock;
  std::vector<Arm> arms;
  std::vector<std::string> metrics;
  std::size_t planned_runs = 0, done_runs = 0;
  std::vector<std::string> problems;  ///< The problems of the runs' records.

 private:
  void read_arms(const std::filesystem::path& directory);
  void read_runs(const std::filesystem::path& directory, Arm& arm);
  void choose_colours();
  template <class T>
  const T& result_of(const Arm& arm, core::Named<T> core::ArmResults::*group,
                     const std::string& metric) const;
};

/// The mean over an arm's seeds, with Student's 95 % interval, at each x where all seeds were
/// measured. Of 300 or more such x, at most 301 are chosen evenly.
/// \param value  returns the y of a measurement, or nothing to leave the measurement out.
/// \param where  returns the x of a measurement, or nothing.
Series curve(const Arm& arm, const auto& value, const auto& where) {
  constexpr std::size_t kMostPointsOfAnArm = 300;
  std::map<double, std::vector<double>> at;
  for (const RunRecord& run : arm.runs) {
    for (const Measurement& one : run.measurements) {
      const auto x = std::invoke(where, one);
      if (const auto y = std::invoke(value, one); x && y) at[static_cast<double>(*x)].push_back(*y);
    }
  }
  std::erase_if(at, [&](const auto& entry) { return entry.second.size() != arm.runs.size(); });
  Series series{
      .name = arm.name, .points = {}, .dashed = arm.is_reference(), .colour = arm.of_level};
  const std::size_t every = at.size() / kMostPointsOfAnArm + 1;
  std::size_t i = 0;
  for (const auto& [x, values] : at) {
    if (++i % every != 0 && i != at.size()) continue;
    const core::SampleSummary runs = core::summarize(values);
    series.points.push_back({x, runs.mean});
    if (runs.ci95) series.bands.push_back({x, (*runs.ci95)[0], (*runs.ci95)[1]});
  }
  return series;
}

}  // namespace privgrad::report
