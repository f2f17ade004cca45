// The entry point to training: runs any plan, with one owner of data or many clients.
#pragma once

#include "privgrad/train/run.hpp"

namespace privgrad::core {

/// Trains, and writes to the directory: manifest.yaml (resolved), privgrad.lock, facts.json,
/// schedules.json, statement.json, ledger.jsonl, metrics.jsonl, model.safetensors, summary.json.
/// Nothing is written there before the data has been read. The ledger's first line contains the
/// hashes of the files that were written before the first step, and its last line the hashes of the
/// run's output (evidence.hpp). The summary is written last, so if it exists, both lines exist.
///
/// In each step the ledger is charged and synced to the disk first; then a batch is drawn, and its
/// clipped sum computed and released. A step that exceeds the budget ends the run with the current
/// model, before the step touches the data.
///
/// With a state folder, the run saves checkpoints there (CheckpointFolder). Until the run ends, its
/// directory contains resume.json with the checkpoint folder's name. The results are the same as
/// without checkpoints, even if the run is killed and resumed: docs/resume.md.
/// \throws IoError, NumericError, PluginError, PrivacyError; a run that throws leaves its ledger.
///   When resumed: ConfigError if the run is finished, PrivacyError if it cannot continue as
///   without the interruption.
RunResult run(const Plan& plan, const RunOptions& options);

/// Replaces run() in every process of a cluster except process 0: computes whatever process 0
/// requests until the run is finished. Writes nothing.
/// \param options  only threads, lock, features and cluster are used; process 0 uses the others.
/// \throws as run(), and IoError if process 0 is gone. The caller ends the other processes
///   (Cluster::end_all).
void work_for_others(const Manifest& manifest, const RunOptions& options);

}  // namespace privgrad::core
