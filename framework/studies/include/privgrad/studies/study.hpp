// A study file as read: the base manifest, the axes, the arms, the seeds and the metrics.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/record/study_facts.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

/// The most arms of a study; more are probably a mistake, such as a superfluous axis.
inline constexpr std::size_t kMaxArms = 1000;
inline constexpr std::size_t kMaxSeeds = 10'000;

/// A number in the summary.json of runs, and whether larger or smaller is better.
struct StudyMetric {
  std::string name;  ///< One of known_metrics(), such as test_accuracy.
  bool higher_is_better = true;
};

/// One value of an axis: a value for each of its keys.
struct AxisValue {
  std::string label;  ///< Unique on its axis; may be part of a file name.
  std::vector<Value> values;
  std::vector<std::string> labels;  ///< One label for each key's value.
};

/// One manifest key that varies, or several keys that vary together.
struct Axis {
  std::vector<std::string> keys;  ///< Dotted.
  std::vector<AxisValue> values;
};

/// One variant of the base manifest, at one level.
struct Arm {
  std::string name;     ///< Unique; the name of its folders: LEVEL+VARIANT, or VARIANT.
  std::string variant;  ///< The name used for comparisons; the same at each level.
  std::size_t level = 0;
  /// The labels of its values, by key; a named arm has only its level's label.
  std::map<std::string, std::string> labels{};
  std::vector<ManifestChange> changes{};
};

/// The rule for adding seeds. Runs are examined after at_least seeds, after twice as many, and so
/// on (looks_between()).
struct SeedRule {
  /// Per metric: the largest final width of the 95 % interval of each paired difference.
  std::map<std::string, double> widths;
  std::size_t at_least = 5, at_most = 5;
};

/// Hyper-parameters that are searched for each arm, before arms are compared.
struct StudySearch {
  std::vector<Axis> over;                               ///< The grid that every arm searches.
  std::map<std::string, std::vector<Axis>> of_variant;  ///< More axes for single variants.
  /// At least one; disjoint from the seeds that the comparison may use.
  std::vector<std::uint64_t> seeds;
  /// The search chooses the candidate with the best mean of this metric over the seeds.
  StudyMetric score;
  /// Changes of the manifest that only the search makes, such as other rows for scoring.
  std::vector<ManifestChange> sets;
};

/// The result of a search for one arm.
struct Choice {
  std::string candidate;             ///< The labels of the candidate's values, joined by '+'.
  std::vector<ManifestChange> set;   ///< The candidate's changes; the compared arm has them too.
  double score = 0.0;                ///< Mean over the search's seeds.
  std::vector<std::string> at_edge;  ///< Keys whose best number is at an end of the searched range.
  std::size_t runs = 0;              ///< The number of runs of the arm's search.
  std::optional<double> epsilon;     ///< The cost of making this choice, at the arm's delta.
  std::string why;                   ///< The reason why no epsilon is proved.
};

/// A study file, with its arms written out. Nothing in it has been checked against plugins yet.
struct Study {
  std::filesystem::path file;
  Value source;  ///< The file as read.
  std::string name;
  std::filesystem::path base_file;   ///< "" if the base is inline.
  Value base;                        ///< The inline base.
  std::vector<ManifestChange> sets;  ///< `set`: changes of the base, in all arms.
  /// The axis of privacy levels. Arms are compared only with arms of the same level.
  std::optional<Axis> levels;
  std::vector<Axis> axes;  ///< The other axes.
  /// The arms of the grid, in which the last axis varies fastest, then the named arms; at least
  /// one.
  std::vector<Arm> arms;
  /// For each level, the index of the baseline arm; all have the same variant.
  std::vector<std::size_t> baselines;
  std::map<std::string, std::string> titles;  ///< The titles of keys, for pages and charts.
  std::vector<std::string> curves;            ///< Variants that charts over the steps must show.
  /// At least one; all different. With a SeedRule, the seeds so far.
  std::vector<std::uint64_t> seeds;
  std::optional<SeedRule> seed_rule;
  /// Per metric: the difference below which arms are equivalent.
  std::map<std::string, double> equivalence;
  std::vector<StudyMetric> metrics;  ///< At least one; arms are chosen by the first.
  std::optional<StudySearch> search;
  std::vector<Choice> choices;            ///< One per arm; none before the search has ended.
  std::optional<ScoredRows> scored_rows;  ///< Nothing before the search has ended.
  bool equal_privacy = true;
  bool training_data_is_public = false;

  const Arm& baseline_of(const Arm& arm) const { return arms[baselines[arm.level]]; }
};

/// How often the runs of a study may be examined to decide whether to stop: 1 without a rule.
std::size_t looks_of(const Study& study);

/// Seeds 1 to `count`.
std::vector<std::uint64_t> first_seeds(std::size_t count);

/// Everything that a study varies: its levels, then its axes.
std::vector<Axis> varied_axes(const Study& study);

/// \throws ManifestError with a line "FILE:LINE:COLUMN: error: ..." for each problem; IoError if
///   the file cannot be read.
Study read_study(const std::filesystem::path& file);

/// Parses a study from a text in memory; `file` is its name in errors. A base file is looked up
/// relative to `file`.
Study parse_study(std::string_view text, const std::filesystem::path& file);

}  // namespace privgrad::core
