// The search for each arm's hyper-parameters, on separate seeds before a study's comparison.
#pragma once

#include <vector>

#include "privgrad/studies/study_plan.hpp"
#include "privgrad/studies/study_results.hpp"

namespace privgrad::core {

/// The search as a separate study, in which each arm is a level and each point of the search's grid
/// is a variant. Its runs have the search's seeds and changes, and their arm's guarantee.
/// \param study  a study with a search.
/// \throws ConfigError if two candidates have the same name.
Study search_study(const Study& study);

/// All axes of a search: first the axes for every arm, then the axes for single variants.
std::vector<Axis> searched_axes(const StudySearch& search);

std::size_t candidate_count(const StudySearch& search, const std::string& variant);

/// The finished search's choice for each arm: the candidate with the best mean score, and the first
/// of several equal candidates. A candidate with a diverged run, or without a score, is not chosen.
/// \param study  the study to which the search belongs; only its arms and its search are used.
/// \param search  the plan of search_study(), and its runs.
/// \throws ConfigError if an arm has no candidate that can be chosen.
std::vector<Choice> choices_of(const Study& study, const StudyPlan& search, const StudyRuns& runs);

/// The study with each arm set to its choice.
/// \param choices  one for each arm.
Study with_choices(Study study, std::vector<Choice> choices);

/// The study with each arm set to its first candidate, for a check before the search.
Study with_first_candidates(const Study& study);

/// Returns the member `search` of study.json and results.json; nothing without a search.
Nullable<SearchFacts> search_facts(const Study& study);

/// The search in sentences, for pages; empty without a search.
std::vector<std::string> search_words(const Study& study);

}  // namespace privgrad::core
