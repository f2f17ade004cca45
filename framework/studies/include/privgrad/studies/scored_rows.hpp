// Which rows the runs of a study share: those of a search with those of the comparison, and those
// of the compared arms.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "privgrad/studies/study_plan.hpp"
#include "privgrad/studies/study_results.hpp"

namespace privgrad::core {

/// Whether two manifests read rows in the same way, so that both turn a row into the same numbers.
/// Their sections `data` may differ only in keys that select rows, as is known for PrivGrad's own
/// data sources, or that concern rows after reading.
bool read_alike(const Manifest& one, const Manifest& other);

/// How many of the rows on which a search scored are among the rows on which the comparison trains
/// or tests. Reads the rows. Features are compared in the source's form, before transforms, and
/// without targets, which may be numbered differently.
ScoredRows scored_rows(const StudyPlan& search, const StudyPlan& comparison);

/// `rows` of `search`, described in docs/studies.md.
nlohmann::json to_json(const ScoredRows& rows);
/// \throws nlohmann::json::exception
ScoredRows scored_rows_from(const nlohmann::json& rows);

/// The same as a sentence.
std::string words_of(const ScoredRows& rows);

/// Finds two runs that were trained on different rows although they have the same seed and read the
/// same data: their commitments, whose openings follow from the seed, differ.
/// \param runs  of the plan's arms and seeds.
/// \returns "ARM/seed-S and ARM/seed-S"; "" if there are none, as far as commitments show.
std::string trained_on_different_rows(const StudyPlan& plan, const StudyRuns& runs);

}  // namespace privgrad::core
