// The directory of a study: its files, its lock, and which runs have finished.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace privgrad::core {

/// How a finished run ended, according to its summary.json.
struct RunRecord {
  std::string status;  ///< "completed", "budget_exhausted", "stopped_early" or "diverged".
  std::uint64_t steps = 0;
  std::optional<double> epsilon;  ///< Nothing if infinite.
  double delta = 0.0;
  std::map<std::string, std::optional<double>> metrics;  ///< train_loss, ...
  /// The time of the training loop; 0 if unknown.
  double seconds = 0.0;
  std::string data_commitment = {};  ///< From the run's ledger; "" if there is none.
};

/// \returns nothing if the run was interrupted.
/// \throws IoError, nlohmann::json::exception if `summary` does not have a summary's form.
std::optional<RunRecord> record_of(const nlohmann::json& summary);

/// The directory of a study, locked by one process at a time; docs/studies.md describes its layout.
class StudyDirectory {
 public:
  /// Creates the directory if needed, and locks it until this object and all child processes that
  /// inherited the lock are gone: a killed study can be resumed only when its last run has ended.
  /// \throws IoError if another process keeps the lock for longer than a few seconds, or if the
  ///   directory contains something other than a study, or cannot be created.
  explicit StudyDirectory(std::filesystem::path path);
  ~StudyDirectory();
  StudyDirectory(const StudyDirectory&) = delete;
  StudyDirectory& operator=(const StudyDirectory&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path study_yaml() const { return path_ / "study.yaml"; }
  std::filesystem::path study_json() const { return path_ / "study.json"; }
  std::filesystem::path lock_file() const { return path_ / "privgrad.lock"; }
  std::filesystem::path results_csv() const { return path_ / "results.csv"; }
  std::filesystem::path results_json() const { return path_ / "results.json"; }
  std::filesystem::path arm(const std::string& name) const { return path_ / "arms" / name; }
  std::filesystem::path arm_manifest(const std::string& name) const {
    return arm(name) / "manifest.yaml";
  }
  std::filesystem::path run(const std::string& arm, std::uint64_t seed) const;

  /// \returns nothing if the run was interrupted or never began.
  std::optional<RunRecord> finished(const std::string& arm, std::uint64_t seed) const;

  /// Removes the files of an unfinished run. The new run has the same seed and thus makes exactly
  /// the same releases, so the two payments do not add up.
  void clear(const std::string& arm, std::uint64_t seed) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace privgrad::core
