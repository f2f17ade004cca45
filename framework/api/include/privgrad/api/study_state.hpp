// The files of a study's directory: preparing it, finding the remaining runs, writing results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "privgrad/studies/study_results.hpp"

namespace privgrad::api {

/// Writes the files that a study has before its first run: study.json, privgrad.lock, and the
/// manifest and plan of each arm.
///
/// If the directory already contains a study, first checks that its runs belong to this study: the
/// same program, plugins and manifests. Arms and seeds may have been added or removed.
/// \throws ConfigError naming the difference; nothing is written then.
void prepare_directory(const core::StudyDirectory& directory, const core::StudyPlan& plan,
                       const Catalog& catalog);

/// Writes study.yaml, the requested study, before anything else.
///
/// Once there are runs, arms and seeds may still be added. The stopping rule, the equivalence
/// margins and the search must not change, because the results are corrected for these.
/// \throws ConfigError if one of these has changed, or an arm, baseline, seed or metric is missing;
///   nothing is written then.
void keep_question(const core::StudyDirectory& directory, const std::string& question);

/// A run that is not yet made.
struct OpenRun {
  std::size_t arm = 0;
  std::uint64_t seed = 0;

  static auto state(auto& self) { return std::tie(self.arm, self.seed); }
};

/// Returns the remaining runs, sorted by seed and then by arm, so that an unfinished study compares
/// all arms.
std::vector<OpenRun> left_runs(const core::StudyPlan& plan, const core::StudyDirectory& directory);

/// \throws IoError if a run is not finished.
core::StudyRuns all_runs(const core::StudyPlan& plan, const core::StudyDirectory& directory);

/// Removes results of an earlier state of the study, before the study continues.
void remove_results(const core::StudyDirectory& directory);

/// Writes results.csv and results.json of a study whose runs are all finished.
/// \returns the content of results.json.
/// \throws IoError if a run is not finished, ConfigError if runs were trained on different rows.
nlohmann::json write_results(const core::StudyPlan& plan, const core::StudyDirectory& directory);

}  // namespace privgrad::api
