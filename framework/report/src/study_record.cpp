#include "study_record.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "privgrad/error.hpp"

namespace privgrad::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

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

std::string title_of_key(const Json& titles, const std::string& key) {
  const auto found = titles.find(key);
  if (found != titles.end() && found->is_string()) return found->get<std::string>();
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
      results_file((directory / "results.json").string()),
      study(read_object(directory / "study.json")),
      results(fs::exists(directory / "results.json") ? read_object(directory / "results.json")
                                                     : Json::object()),
      has_results(fs::exists(directory / "results.json")) {
  if (fs::exists(directory / "privgrad.lock"))
    lock = read_text(directory / "privgrad.lock", std::size_t{1} << 20);
  for (const Json& metric : objects(study, "metrics", study_file)) {
    if (const auto known = text(metric, "name", study_file)) metrics.push_back(*known);
  }
  read_arms(directory);
  choose_colours();
}

void StudyRecord::read_arms(const fs::path& directory) {
  for (const Json& entry : objects(study, "arms", study_file)) {
    const auto arm_name = text(entry, "name", study_file);
    if (!arm_name || !is_plain_name(*arm_name))
      throw IoError(study_file + ": an arm has no name that can be that of its folder");
    arms.push_back({.name = *arm_name,
                    .variant = text(entry, "variant", study_file).value_or(*arm_name),
                    .plan = entry,
                    .same_as = text(entry, "same_as", study_file).value_or(""),
                    .run_paths = {},
                    .runs = {},
                    .is_reference = entry.value("reference", Json()) == true});
    read_runs(directory, arms.back());
  }
  if (arms.empty()) throw IoError(study_file + ": names no arms");
}

void StudyRecord::read_runs(const fs::path& directory, Arm& arm) {
  for (const Json& seed : list(study, "seeds", study_file)) {
    if (!seed.is_number_integer()) throw IoError(study_file + ": a seed is not a whole number");
    if (!arm.same_as.empty()) continue;
    ++planned_runs;
    const std::string path = "runs/" + arm.name + "/seed-" + seed.dump();
    const fs::path run = directory / path;
    // A run without a summary is unfinished.
    if (!is_run(run) || !fs::exists(run / "summary.json")) continue;
    arm.runs.push_back(read_run(run));
    arm.run_paths.push_back(path);
    for (const std::string& what : arm.runs.back().problems)
      problems.push_back(arm.name + ", seed " + seed.dump() + ": " + what);
    ++done_runs;
  }
}

/// In a study with several factors, the first factor with few enough values determines the colour,
/// and variants with the same value have different dashes. Otherwise each variant has its colour.
void StudyRecord::choose_colours() {
  const std::vector<Factor> all = factors();
  const auto factor = std::ranges::find_if(
      all, [](const Factor& one) { return one.labels.size() <= kMostColours; });
  const bool is_grid = factor != all.end() && all.size() > 1;
  const std::vector<std::string> levels =
      texts(members(study, "levels", study_file), "labels", study_file);
  std::map<std::string, std::size_t> known;
  std::map<std::size_t, std::size_t> sharing;
  for (Arm& arm : arms) {
    if (!known.contains(arm.variant)) {
      std::size_t colour = known.size();
      if (is_grid) {
        const auto label =
            text(members(arm.plan, "labels", study_file), factor->key.c_str(), study_file);
        const auto place = std::ranges::find(factor->labels, label);
        const auto value = static_cast<std::size_t>(place - factor->labels.begin());
        colour = value % kMostColours + kMostColours * sharing[value]++;
      }
      known.emplace(arm.variant, colour);
    }
    arm.colour = known.at(arm.variant);
    const auto level = std::ranges::find(levels, level_of(arm));
    arm.of_level = arm.colour;
    if (level != levels.end())
      arm.of_level += kMostColours * static_cast<std::size_t>(level - levels.begin());
  }
}

std::string StudyRecord::name() const { return text(study, "name", study_file).value_or("study"); }

std::string StudyRecord::baseline() const {
  return text(study, "baseline", study_file).value_or("");
}

bool StudyRecord::has_levels() const {
  return study.contains("levels") && !study.at("levels").is_null();
}

std::string StudyRecord::level_of(const Arm& arm) const {
  return text(arm.plan, "level", study_file).value_or("");
}

std::string StudyRecord::baseline_words() const {
  return baseline() + (has_levels() ? ", at the same level" : "");
}

const Json& StudyRecord::result_of(const std::string& arm) const {
  static const Json none = Json::object();
  for (const Json& entry : objects(results, "arms", results_file)) {
    if (text(entry, "name", results_file) == arm) return entry;
  }
  return none;
}

const Json& StudyRecord::metric_of(const std::string& arm, const char* group,
                                   const std::string& metric) const {
  return members(members(result_of(arm), group, results_file), metric.c_str(), results_file);
}

std::optional<double> StudyRecord::mean_of(const std::string& arm,
                                           const std::string& metric) const {
  return number(metric_of(arm, "metrics", metric), "mean", results_file);
}

std::optional<std::pair<double, double>> StudyRecord::ends(const Json& entry) const {
  const Json& ci = list(entry, "ci95", results_file);
  if (ci.size() != 2 || !ci[0].is_number() || !ci[1].is_number()) return std::nullopt;
  return std::pair{ci[0].get<double>(), ci[1].get<double>()};
}

bool StudyRecord::better_is_higher(const std::string& metric) const {
  for (const Json& known : list(study, "metrics", study_file)) {
    if (text(known, "name", study_file) == metric)
      return text(known, "better", study_file) != "lower";
  }
  return true;
}

std::vector<Factor> StudyRecord::factors() const {
  std::vector<Factor> all;
  for (const Json& entry : objects(study, "axes", study_file)) {
    const std::vector<std::string> keys = texts(entry, "keys", study_file);
    Factor factor{.key = keys.empty() ? "" : keys.front(),
                  .labels = texts(entry, "labels", study_file)};
    if (factor.labels.size() > 1) all.push_back(std::move(factor));
  }
  return all;
}

std::string StudyRecord::title_of(const std::string& key) const {
  return title_of_key(members(study, "titles", study_file), key);
}

std::vector<const Arm*> StudyRecord::curves() const {
  const std::vector<std::string> asked = texts(study, "curves", study_file);
  std::vector<const Arm*> shown, others;
  for (const Arm& arm : arms) {
    if (!arm.same_as.empty()) continue;
    const bool is_kept = is_baseline(arm) || arm.is_reference ||
                         std::ranges::find(asked, arm.variant) != asked.end();
    (is_kept && shown.size() < kMostCurves ? shown : others).push_back(&arm);
  }
  if (!metrics.empty()) {
    const bool higher = better_is_higher(metrics.front());
    const auto badness = [&](const Arm* arm) {
      const auto mean = mean_of(arm->name, metrics.front());
      return mean ? (higher ? -*mean : *mean) : std::numeric_limits<double>::infinity();
    };
    if (shown.size() + others.size() > kMostCurves)
      std::ranges::stable_sort(others,
                               [&](const Arm* a, const Arm* b) { return badness(a) < badness(b); });
  }
  for (const Arm* arm : others)
    if (shown.size() < kMostCurves) shown.push_back(arm);
  std::ranges::sort(shown);  // pointers into one array, so this is the study's order
  return shown;
}

}  // namespace privgrad::report
