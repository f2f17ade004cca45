// Verifies a finished study: each of its runs, and that its results follow from them.
#pragma once

#include "privgrad/verify/verify.hpp"

namespace privgrad::core {

/// Checks every run of a study (verify_run()), that each run belongs to its arm, and that
/// study.json, results.csv and results.json follow from these runs.
///
/// A run without noise has no ledger, so a study with such a run is not verified.
/// \returns as verify_run(), each problem with the folder of its run; epsilon is the largest among
///   the runs.
/// \throws IoError if study.json cannot be read as such.
Verification verify_study(const RecordDirectory& directory, const Catalog& catalog);

}  // namespace privgrad::core
