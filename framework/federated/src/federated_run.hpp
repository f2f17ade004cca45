// The run of a federated plan, with its rounds, clients and ledgers.
#pragma once

#include "privgrad/train/run.hpp"

namespace privgrad::core {

/// Does the same as run(), for a plan with clients. Besides the files of a central run, writes
/// rounds.jsonl, clients.json, and a ledger for each client under ledgers/ (dp_fed_avg: the
/// server's ledger.jsonl).
RunResult federated_run(const Plan& plan, const RunOptions& options);

}  // namespace privgrad::core
