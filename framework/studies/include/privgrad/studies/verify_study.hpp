// Verifies a finished study: that each run verifies, and that the results follow from the runs.
#pragma once

#include "privgrad/verify/verify.hpp"

namespace privgrad::core {

/// Checks every run of a study (verify_run()), that each run belongs to its arm, and that
/// study.json, results.csv and results.json follow from these runs.
///
/// An arm without noise has no ledgers: a note says this, and no epsilon is returned.
/// \returns as verify_run(). Each problem names the folder of its run, and epsilon is the largest
///   among the runs.
/// \throws IoError if study.json cannot be read or is not valid.
Verification verify_study(const RecordDirectory& directory, const Catalog& catalog);

}  // namespace privgrad::core
