#include "study_record.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "privgrad/error.hpp"

namespace privgrad::report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostColours = 7;  // the colours of charts

/// Whether a name is a single path component, so that it cannot lead out of its directory.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find_first_of("/\\") == name.npos &&
         name.find('\0') == name.npos;
}

std::optional<double> number_of(const std::string& text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && std::isfinite(value))
    return value;
  return std::nullopt;
}

}  // namespace

std::string spoken(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

std::string title_of_key(const core::Named<core::Text>& titles, const std::string& key) {
  const auto found = titles.find(key);
  if (found != titles.end()) return found->second;
  if (key == "privacy.target_epsilon") return "epsilon";
  if (key == "privacy.target_delta") return "delta";
  return spoken(key.substr(key.rfind('.') + 1));
}

std::optional<std::vector<double>> numbers_of(const std::vector<std::string>& labels) {
  std::vector<double> values;
  for (const std::string& label : labels) {
    const auto value = number_of(label);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

bool is_logarithmic(const std::vector<double>& values) {
  const auto [low, high] = std::ranges::minmax_element(values);
  return !values.empty() && *low > 0.0 && *high >= 4.0 * *low;
}

StudyRecord::StudyRecord(const fs::path& directory)
    : study_file((directory / "study.json").string()),
      study_json(read_object(study_file)),
      study(core::facts_in<core::StudyFacts>(study_json, study_file)),
      has_results(fs::exists(directory / "results.json")),
      results(has_results ? read_facts<core::StudyResults>(directory / "results.json")
                          : core::StudyResults{}) {
  if (fs::exists(directory / "privgrad.lock"))
    lock = read_text(directory / "privgrad.lock", std::size_t{1} << 20);
  for (const core::MetricFacts& metric : study.metrics) metrics.push_back(metric.name);
  read_arms(directory);
  choose_colours();
}

void StudyRecord::read_arms(const fs::path& directory) {
  for (const core::PlannedArmFacts& planned : study.arms) {
    if (!is_plain_name(planned.name))
      throw IoError(study_file + ": an arm has no name that can be that of its folder");
    arms.push_back({planned});
    if (planned.variant.empty()) arms.back().variant = planned.name;
    read_runs(directory, arms.back());
  }
  if (arms.empty()) throw IoError(study_file + ": names no arms");
}

void StudyRecord::read_runs(const fs::path& directory, Arm& arm) {
  if (arm.same_as) return;
  for (const core::Count seed : study.seeds) {
    ++planned_runs;
    const std::string path = "runs/" + arm.name + "/seed-" + std::to_string(seed);
    const fs::path run = directory / path;
    // A run without a summary is unfinished.
    if (!is_run(run) || !fs::exists(run / "summary.json")) continue;
    arm.runs.push_back(read_run(run));
    arm.run_paths.push_back(path);
    for (const std::string& what : arm.runs.back().problems)
      problems.push_back(arm.name + ", seed " + std::to_string(seed) + ": " + what);
    ++done_runs;
  }
}

/// In a study with several factors, the first factor with few enough values determines the colour,
/// and variants with the same value have different dashes. Otherwise each variant has its own
/// colour.
void StudyRecord::choose_colours() {
  const std::vector<Factor> all = factors();
  const auto factor = std::ranges::find_if(
      all, [](const Factor& one) { return one.labels.size() <= kMostColours; });
  const bool is_grid = factor != all.end() && all.size() > 1;
  const core::Texts levels = study.levels.value_or(core::AxisFacts()).labels;
  std::map<std::string, std::size_t> known;
  std::map<std::size_t, std::size_t> sharing;
  for (Arm& arm : arms) {
    if (!known.contains(arm.variant)) {
      std::size_t colour = known.size();
      if (is_grid) {
        const auto label = arm.labels.find(factor->key);
        const auto place = label == arm.labels.end()
                               ? factor->labels.end()
                               : std::ranges::find(factor->labels, label->second);
        const auto value = static_cast<std::size_t>(place - factor->labels.begin());
        colour = value % kMostColours + kMostColours * sharing[value]++;
      }
      known.emplace(arm.variant, colour);
    }
    arm.colour = known.at(arm.variant);
    const auto level = std::ranges::find(levels, arm.level.value_or(""));
    arm.of_level = arm.colour;
    if (level != levels.end())
      arm.of_level += kMostColours * static_cast<std::size_t>(level - levels.begin());
  }
}

std::string StudyRecord::baseline_words() const {
  return study.baseline + (has_levels() ? ", at the same level" : "");
}

template <class T>
const T& StudyRecord::result_of(const Arm& arm, core::Named<T> core::ArmResults::*group,
                                const std::string& metric) const {
  static const T none;
  const auto own = std::ranges::find(results.arms, arm.name, &core::ArmResults::name);
  if (own == results.arms.end()) return none;
  const auto found = ((*own).*group).find(metric);
  return found == ((*own).*group).end() ? none : found->second;
}

const core::MeanFacts& StudyRecord::mean_of(const Arm& arm, const std::string& metric) const {
  return result_of(arm, &core::ArmResults::metrics, metric);
}

const core::DifferenceFacts& StudyRecord::difference_of(const Arm& arm,
                                                        const std::string& metric) const {
  return result_of(arm, &core::ArmResults::versus_baseline, metric);
}

bool StudyRecord::better_is_higher(const std::string& metric) const {
  const auto known = std::ranges::find(study.metrics, metric, &core::MetricFacts::name);
  return known == study.metrics.end() || known->better != "lower";
}

std::vector<Factor> StudyRecord::factors() const {
  std::vector<Factor> all;
  for (const core::AxisFacts& axis : study.axes) {
    if (axis.labels.size() > 1)
      all.push_back({.key = axis.keys.empty() ? "" : axis.keys.front(), .labels = axis.labels});
  }
  return all;
}

std::string StudyRecord::title_of(const std::string& key) const {
  return title_of_key(study.titles, key);
}

std::vector<const Arm*> StudyRecord::curves() const {
  const core::Texts& asked = study.curves;
  std::vector<const Arm*> shown, others;
  for (const Arm& arm : arms) {
    if (arm.same_as) continue;
    const bool is_kept = is_baseline(arm) || arm.is_reference() ||
                         std::ranges::find(asked, arm.variant) != asked.end();
    (is_kept && shown.size() < kMostCurves ? shown : others).push_back(&arm);
  }
  if (!metrics.empty()) {
    const bool higher = better_is_higher(metrics.front());
    const auto badness = [&](const Arm* arm) {
      const auto& mean = mean_of(*arm, metrics.front()).mean;
      return mean ? (higher ? -*mean : *mean) : std::numeric_limits<double>::infinity();
    };
    if (shown.size() + others.size() > kMostCurves)
      std::ranges::stable_sort(others,
                               [&](const Arm* a, const Arm* b) { return badness(a) < badness(b); });
  }
  for (const Arm* arm : others)
    if (shown.size() < kMostCurves) shown.push_back(arm);
  std::ranges::sort(shown);  // pointers into `arms`, so the result is in the study's order
  return shown;
}

}  // namespace privgrad::report
