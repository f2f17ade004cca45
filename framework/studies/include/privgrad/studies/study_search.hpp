// The search of a study: each arm's hyper-parameters, found on other seeds before the comparison.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "privgrad/studies/study_plan.hpp"
#include "privgrad/studies/study_results.hpp"

namespace privgrad::core {

/// The search as a study of its own: each arm is a level, each point of the search's grid a variant.
/// Its runs have the search's seeds and changes, and the guarantee of their arm.
/// \param study  with a search.
/// \throws ConfigError if two candidates have one name.
Study search_study(const Study& study);

/// All axes of a search: for every arm, then those for single variants.
std::vector<Axis> searched_axes(const StudySearch& search);

/// The number of candidates of a variant.
std::size_t candidate_count(const StudySearch& search, const std::string& variant);

/// What the finished search chooses for each arm: the best mean score, and of equal ones the first.
/// A candidate with a run that diverged, or without a score, is not chosen.
/// \param study   the study that is searched for; only its arms and its search are used.
/// \param search  the plan of search_study(), and its runs.
/// \throws ConfigError if an arm has no candidate that can be chosen.
std::vector<Choice> choices_of(const Study& study, const StudyPlan& search, const StudyRuns& runs);

/// The study with each arm at its choice. \param choices  one for each arm.
Study with_choices(Study study, std::vector<Choice> choices);

/// The study with each arm at its first candidate: to be checked before the search.
Study with_first_candidates(const Study& study);

/// `search` of study.json and results.json, described in docs/studies.md.
nlohmann::json search_json(const Study& study);

/// The same in sentences, for pages; empty without a search.
std::vector<std::string> search_words(const Study& study);

}  // namespace privgrad::core
