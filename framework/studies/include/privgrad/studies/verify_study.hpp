#pragma once

#include "privgrad/verify/verify.hpp"

namespace privgrad::core {

/// Checks every run of a study (verify_run()), that each is the arm that it is taken for, and that
/// study.json, results.csv and results.json are what these runs make.
///
/// A run without noise has no ledger, so that a study with one is not verified.
/// \returns as verify_run(), each problem with the folder of its run; epsilon is the largest of one
///   run.
/// \throws IoError if study.json cannot be read as one.
Verification verify_study(const RecordDirectory& directory, const Catalog& catalog);

}  // namespace privgrad::core
