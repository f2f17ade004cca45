// Carries out a study: its search, its runs, more seeds if its rule requires them, and its results.
#pragma once

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

/// A study that was checked, and planned as far as possible before its runs.
struct StudyCourse {
  core::Study study;  ///< The study as read.
  std::vector<std::string> overrides;
  std::string question;                     ///< core::study_yaml().
  std::shared_ptr<core::StudyPlan> search;  ///< Null if there is no search.
  /// The comparison. Until the search has ended, it contains the search's first candidates.
  core::StudyPlan plan;
};

/// \throws as core::plan_study().
StudyCourse plan_course(core::Study study, std::vector<std::string> overrides,
                        const Catalog& catalog);

/// Makes the remaining runs of a study, and returns whether all runs are made now.
using MakeRuns = std::function<bool(const core::StudyPlan&, const core::StudyDirectory&)>;

/// Completes a study from any state: calls `make` while runs remain, for the search (in
/// DIR/search), for the comparison, and again for more seeds.
/// \returns results.json; nothing if `make` leaves runs unfinished.
/// \throws as prepare_directory() and write_results(); ConfigError if no candidate of a search can
///   be chosen.
std::optional<nlohmann::json> carry_out(StudyCourse& course, const core::StudyDirectory& directory,
                                        const Catalog& catalog, const MakeRuns& make);

}  // namespace privgrad::api
