// Audits a finished run from its directory, and checks or repeats the audit recorded there.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/studies/audit.hpp"
#include "privgrad/verify/verify.hpp"

/// Audits of finished runs: audit.json, beside the run's own files.
///
/// The plan is that of the run, made again from its manifest.yaml and facts.json, so that the
/// proved epsilon is the one that the run states. The rows are drawn from a public law and no data
/// is read: the audit attacks the code, canaries are the worst case beside any rows, and the result
/// may be handed on with the run, since it costs nobody any privacy. Coins, noise and rows come
/// from the hash of the ledger's last line, which was settled before: anyone who has the directory
/// can make the same audit again.
namespace privgrad::core {

struct RunAudit {
  AuditResult result;
  /// The content of audit.json: to_json(result) without the time that it took; "rows": "drawn";
  /// "audits": {"ledger.jsonl": the hash of its last line, "manifest.yaml": its SHA-256}; and
  /// "versions", as in the statement, of the program and the plugins that were attacked.
  nlohmann::json record;
};

/// \param options  its rows and its key do not count.
/// \throws PrivacyError if the run does not verify (verify_run()); ConfigError if it did not make
///   all steps that its budget pays for, since the proof is then about fewer steps than the audit;
///   as audit() and RecordDirectory.
RunAudit audit_run(const RecordDirectory& directory, const Catalog& catalog, AuditOptions options);

/// Checks audit.json, if there is one: that it belongs to this run, that its bound is the one that
/// its guesses give, and that the bound is not above the proved epsilon. The guesses are believed:
/// only repeat_audit() checks them.
/// \param verified  the run's verification. Problems and notes are added.
void check_audit(const RecordDirectory& directory, Verification& verified);

/// Makes the audit of audit.json again, which takes as long as before. Differences are problems.
/// \throws IoError if there is none; as audit_run().
void repeat_audit(const RecordDirectory& directory, const Catalog& catalog, int threads,
                  Verification& verified);

}  // namespace privgrad::core
