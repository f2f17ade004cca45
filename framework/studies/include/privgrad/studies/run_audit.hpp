// Audits a finished run from its directory, and checks or repeats the audit recorded there.
#pragma once

#include <nlohmann/json.hpp>

#include "privgrad/catalog.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/studies/audit.hpp"
#include "privgrad/verify/verify.hpp"

/// Audits of finished runs: audit.json, beside the run's own files.
///
/// The plan is recreated from the run's manifest.yaml and facts.json, so the proved epsilon is the
/// epsilon that the run states. The rows are drawn from a public distribution, and no data is read.
/// This is enough to attack the code, because canaries are the worst case for any rows; and the
/// result has no privacy cost, so it can be published with the run. Coins, noise and rows derive
/// from the hash of the ledger's last line, which was fixed before the audit, so anyone with the
/// directory can repeat the audit.
namespace privgrad::core {

struct RunAudit {
  AuditResult result;
  /// The content of audit.json: to_json(result) without its time; "rows": "drawn"; "audits":
  /// {"ledger.jsonl": the hash of its last line, "manifest.yaml": its SHA-256}; and "versions", as
  /// in the statement, of the program and the plugins that were attacked.
  nlohmann::json record;
};

/// \param options  `rows` and `key` are ignored.
/// \throws PrivacyError if the run does not verify (verify_run()); ConfigError for the options
///   `neighbours` and `exposure`, and if the run did not make all steps that its budget pays for,
///   because the audit would then cover more steps than the proof; errors of audit() and
///   RecordDirectory.
RunAudit audit_run(const RecordDirectory& directory, const Catalog& catalog, AuditOptions options);

/// Checks audit.json, if it exists: that it belongs to this run, that its bound follows from its
/// guesses, and that the bound is not above the proved epsilon. Trusts the guesses, which only
/// repeat_audit() checks.
/// \param verified  the run's verification. Problems and notes are added.
void check_audit(const RecordDirectory& directory, Verification& verified);

/// Repeats the audit of audit.json, which takes as long as before; differences become problems.
/// \throws IoError if there is no audit.json; errors of audit_run().
void repeat_audit(const RecordDirectory& directory, const Catalog& catalog, int threads,
                  Verification& verified);

}  // namespace privgrad::core
