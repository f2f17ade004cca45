// Compares the rows that runs of a study use: the rows of a search with the rows of the comparison,
// and the rows of the compared arms with each other.
#pragma once

#include <string>

#include "privgrad/studies/study_plan.hpp"
#include "privgrad/studies/study_results.hpp"

namespace privgrad::core {

/// Whether two manifests read rows in the same way, so that both turn a row into the same numbers.
/// Their sections `data` may differ only in keys that select rows (known for PrivGrad's own data
/// sources) or that apply to rows after reading.
bool read_alike(const Manifest& one, const Manifest& other);

/// Counts the rows on which a search scored candidates, and how many of them the comparison also
/// uses for training or testing. Reads the rows. Features are compared in the source's form, before
/// transforms, and without targets, which may be numbered differently.
ScoredRows scored_rows(const StudyPlan& search, const StudyPlan& comparison);

std::string words_of(const ScoredRows& rows);

/// Finds two runs that were trained on different rows although they have the same seed and read the
/// same data: their commitments, whose openings follow from the seed, differ.
/// \param runs  the runs, by the plan's arms and seeds.
/// \returns "ARM/seed-S and ARM/seed-S"; "" if the commitments show no such runs.
std::string trained_on_different_rows(const StudyPlan& plan, const StudyRuns& runs);

}  // namespace privgrad::core
