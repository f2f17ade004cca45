// The arms of a study with the records of their runs, and their mean curves over the seeds.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "chart.hpp"
#include "privgrad/statistics/paired_statistics.hpp"
#include "record.hpp"

namespace privgrad::report {

/// An arm of a study, with the records of its runs.
struct Arm {
  std::string name;
  nlohmann::json plan;  ///< Its entry in study.json.
  /// One per run, relative to the study's directory, with '/'.
  std::vector<std::string> run_paths;
  std::vector<RunRecord> runs;  ///< Only finished runs.
};

/// The mean over an arm's seeds wherever all of them were measured, with Student's 95 % interval.
/// \param value  selects the measurement.
/// \param where  std::optional<double>(const Measurement&): its place on the x axis, if it has one.
template <class Where>
Series curve(const Arm& arm, std::optional<double> Measurement::*value, Where where) {
  constexpr std::size_t kMostPointsOfAnArm = 300;
  std::map<double, std::vector<double>> at;
  for (const RunRecord& run : arm.runs) {
    for (const Measurement& one : run.measurements) {
      if (const auto x = where(one); x && one.*value) at[*x].push_back(*(one.*value));
    }
  }
  std::erase_if(at, [&](const auto& entry) { return entry.second.size() != arm.runs.size(); });
  Series series{.name = arm.name, .points = {}};
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

/// The same curve over the steps.
Series curve(const Arm& arm, std::optional<double> Measurement::*value);

}  // namespace privgrad::report
