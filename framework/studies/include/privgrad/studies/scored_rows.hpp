// Which rows the runs of a study have in common: those of a search with the comparison's, and those
// of arms that are compared.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "privgrad/studies/study_plan.hpp"
#include "privgrad/studies/study_results.hpp"

namespace privgrad::core {

/// Whether two manifests read rows the same way, so that one row makes the same numbers by both:
/// their sections `data` differ at most in keys that say which rows are read, as is known of the
/// data sources that come with PrivGrad, or that say what becomes of rows that are read.
bool read_alike(const Manifest& one, const Manifest& other);

/// How many of the rows that a search scored on are among those that the comparison trains or tests
/// on: reads them. Features are compared as the source has them, before transforms, and without
/// targets, which may be numbered otherwise.
ScoredRows scored_rows(const StudyPlan& search, const StudyPlan& comparison);

/// `rows` of `search`, described in docs/studies.md.
nlohmann::json to_json(const ScoredRows& rows);
/// \throws nlohmann::json::exception
ScoredRows scored_rows_from(const nlohmann::json& rows);

/// The same in a sentence.
std::string words_of(const ScoredRows& rows);

/// Two runs that were trained on different rows although they have one seed and read the same data:
/// their commitments differ, whose openings follow from the seed.
/// \param runs  of the plan's arms, and of its seeds.
/// \returns "ARM/seed-S and ARM/seed-S"; "" if there are none, as far as commitments tell.
std::string trained_on_different_rows(const StudyPlan& plan, const StudyRuns& runs);

}  // namespace privgrad::core
