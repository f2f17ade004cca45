// Running any plan, with one owner of data or many clients: the entry point to training.
#pragma once

#include "privgrad/train/run.hpp"

namespace privgrad::core {

/// Trains, and leaves in the directory: manifest.yaml (as resolved), privgrad.lock, facts.json,
/// schedules.json, statement.json, ledger.jsonl, metrics.jsonl, model.safetensors, summary.json.
/// Nothing is written there before the data has been read. The ledger's first line binds the files
/// from before the first step, its last line those that the run has left (evidence.hpp); the
/// summary, which comes last, says that both are there.
///
/// Per step: the ledger is charged and on disk; only then is a batch drawn, its clipped sum
/// computed and released. A step that cannot be paid for ends the run before the data is touched,
/// with the model so far.
///
/// With a state folder, it leaves checkpoints there (CheckpointFolder), and in the directory, as
/// long as it is not over, resume.json with the name of its folder. Its results are those of a run
/// without checkpoints, whenever it is killed: docs/resume.md.
/// \throws IoError, NumericError, PluginError, PrivacyError; a run that throws leaves its ledger.
///   When resumed, ConfigError if it is finished, PrivacyError where it cannot go on as it would
///   have.
RunResult run(const Plan& plan, const RunOptions& options);

/// The part of every process of a cluster but process 0, in place of run(): it computes whatever
/// process 0 asks for, until that run is over. Writes nothing.
/// \param options  threads, lock, features and cluster; the rest is process 0's.
/// \throws as run(), and IoError if process 0 is gone. The caller ends the others
///   (Cluster::end_all).
void work_for_others(const Manifest& manifest, const RunOptions& options);

}  // namespace privgrad::core
