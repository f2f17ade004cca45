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
#include "privgrad/value.hpp"

namespace privgrad::core {

/// The largest study: anything above is a mistake, such as an axis too many.
inline constexpr std::size_t kMaxArms = 1000;
inline constexpr std::size_t kMaxSeeds = 10'000;

/// A number that runs leave in summary.json, and which way it gets better.
struct StudyMetric {
  std::string name;  ///< train_loss, train_accuracy, test_loss or test_accuracy.
  bool higher_is_better = true;
};

/// One value of an axis: a value for each of its keys.
struct AxisValue {
  std::string label;  ///< Unique on its axis; may be a part of a file's name.
  std::vector<Value> values;
  std::vector<std::string> labels;  ///< One for each key's own value.
};

/// One manifest key that varies, or several that vary together.
struct Axis {
  std::vector<std::string> keys;  ///< Dotted.
  std::vector<AxisValue> values;
};

/// One variant of the base manifest.
struct Arm {
  std::string name;                           ///< Unique; the name of its folders.
  std::map<std::string, std::string> labels;  ///< Per key that varies; empty for a named arm.
  std::vector<ManifestChange> changes;
};

/// A study file, with its arms written out. Nothing in it has been checked against plugins yet.
struct Study {
  std::filesystem::path file;
  std::string name;
  std::filesystem::path base_file;   ///< "": the base is inline.
  Value base;                        ///< Inline.
  std::vector<ManifestChange> sets;  ///< `set`: changes of the base, in all arms.
  std::vector<Axis> axes;
  std::vector<Arm> arms;  ///< The grid, the last axis fastest, then the named ones; at least one.
  std::size_t baseline = 0;          ///< Index of an arm.
  std::vector<std::uint64_t> seeds;  ///< At least one; all different.
  std::vector<StudyMetric> metrics;  ///< At least one; arms are chosen by the first.
  bool equal_privacy = true;
  bool training_data_is_public = false;
};

/// \throws ManifestError with a line "FILE:LINE:COLUMN: error: ..." for each problem; IoError.
Study read_study(const std::filesystem::path& file);

/// The same for a text in memory; `file` is its name in errors, and `base` is looked up relative to
/// it.
Study parse_study(std::string_view text, const std::filesystem::path& file);

}  // namespace privgrad::core
