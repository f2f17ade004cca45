#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/studies/audit.hpp"
#include "privgrad/verify/verify.hpp"

/// Audits of a run that was made: audit.json, beside what the run left.
///
/// The plan is that of the run, made again from its manifest.yaml and facts.json, so that the proved
/// epsilon is the one that the run states. The rows are drawn from a public law and no data is
/// read: what is attacked is the code, canaries are the worst case beside any rows, and the result
/// may be handed on with the run, since it costs nobody any privacy. Coins, noise and rows come from
/// the hash of the ledger's last line, which was settled before: whoever has the directory makes the
/// same audit again.
namespace privgrad::core {

struct RunAudit {
  AuditResult result;
  /// What audit.json holds: to_json(result) without the time that it took; "rows": "drawn";
  /// "audits": {"ledger.jsonl": the hash of its last line, "manifest.yaml": its SHA-256}; and
  /// "versions", as in the statement, of the program and the plugins that were attacked.
  nlohmann::json record;
};

/// \param options  its rows and its key do not count.
/// \throws PrivacyError if the run does not verify (verify_run()); ConfigError if it did not make
///   all steps that its budget pays for, since what is proved of it is then not of what is audited;
///   as audit() and RecordDirectory.
RunAudit audit_run(const RecordDirectory& directory, const Catalog& catalog, AuditOptions options);

/// Looks at audit.json, if there is one: that it is of this run, that its bound is the one that its
/// guesses make, and that the bound is not above the proved epsilon. The guesses are believed: only
/// repeat_audit() looks at them.
/// \param verified  of the run. Problems and notes are added.
void check_audit(const RecordDirectory& directory, Verification& verified);

/// Makes the audit of audit.json again, which takes as long as it took. What differs is a problem.
/// \throws IoError if there is none; as audit_run().
void repeat_audit(const RecordDirectory& directory, const Catalog& catalog, int threads,
                  Verification& verified);

}  // namespace privgrad::core
