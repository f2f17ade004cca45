// Verifies a finished study: each of its runs, and that its results follow from them.
#pragma once

#include "privgrad/verify/verify.hpp"

namespace privgrad::core {

/// Checks every run of a study (verify_run()), that each belongs to the arm that it is taken for,
/// and that study.json, results.csv and results.json follow from these runs.
///
/// A run without noise has no ledger, so that a study with such a run is not verified.
/// \returns as verify_run(), each problem with the folder of its run; epsilon is the largest among
///   the runs.
/// \throws IoError if study.json cannot be read as one.
Verification verify_study(const RecordDirectory& directory, const Catalog& catalog);

}  // namespace privgrad::core
