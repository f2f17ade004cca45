// The course of a study: its search, its runs, more seeds where its rule wants them, its results.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"

namespace privgrad::api {

/// A study that was checked, and planned as far as it can be before its runs.
struct StudyCourse {
  core::Study study;  ///< As read.
  std::vector<std::string> overrides;
  std::string question;                     ///< core::study_yaml().
  std::shared_ptr<core::StudyPlan> search;  ///< Of the search, if there is one.
  core::StudyPlan plan;  ///< Of the comparison; before a search has ended, at its first candidates.
};

/// \throws as core::plan_study().
StudyCourse plan_course(core::Study study, std::vector<std::string> overrides,
                        const Catalog& catalog);

/// Makes the runs of a study that are left. \returns whether all are made now.
using MakeRuns = std::function<bool(const core::StudyPlan&, const core::StudyDirectory&)>;

/// Carries a study to its end, from wherever it was left: `make` is called while runs are left, for
/// the search (in DIR/search), for the comparison, and again for more seeds.
/// \returns results.json; nothing once `make` leaves some.
/// \throws as prepare_directory(); ConfigError if a search finds nothing to choose.
std::optional<nlohmann::json> carry_out(StudyCourse& course, const core::StudyDirectory& directory,
                                        const Catalog& catalog, const MakeRuns& make);

}  // namespace privgrad::api
