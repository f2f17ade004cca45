// A small study that uses the small manifest, for the tests of `privgrad ablate`.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "cli.hpp"

namespace fs = std::filesystem;

/// A folder with the study, and calls of `privgrad ablate` in it.
struct Workplace : Cli {
  /// Four small arms with three seeds, based on the small manifest.
  static constexpr const char* kStudy = R"(study: 1
name: tiny
base: small.yaml
axes:
  schedules.noise_multiplier: [uniform, {kind: exponential, rate: 0.9}]
  optimizer: [sgd, {kind: momentum, beta: 0.5}]
seeds: 3
metrics: [test_accuracy, test_loss]
)";

  Workplace() { write_file(dir() / "s.yaml", kStudy); }
  Outcome ablate(Words more = {}) const {
    more.insert(more.begin(), {"ablate", "s.yaml"});
    return (*this)(more);
  }
  std::string csv(const std::string& name) const { return read_file(out(name) / "results.csv"); }
  std::string json(const std::string& name) const { return read_file(out(name) / "results.json"); }
  std::size_t finished(const std::string& name) const {
    std::size_t count = 0;
    std::error_code missing;
    for (const auto& entry : fs::recursive_directory_iterator(out(name) / "runs", missing)) {
      count += entry.path().filename() == "summary.json";
    }
    return count;
  }
};

/// Returns the times at which finished runs were written; a repeated run has another time.
inline std::set<fs::file_time_type> run_times(const fs::path& study) {
  std::set<fs::file_time_type> times;
  for (const auto& entry : fs::recursive_directory_iterator(study / "runs")) {
    if (entry.path().filename() == "summary.json") times.insert(entry.last_write_time());
  }
  return times;
}
