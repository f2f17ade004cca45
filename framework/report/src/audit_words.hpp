// Reads a run's audit.json, and describes and draws its lower bound for the page and the statement.
#pragma once

#include <optional>
#include <string>

#include "record.hpp"

namespace privgrad::report {

/// A lower bound on a run's epsilon, found by an attack, and the proved upper bound.
struct AuditShown {
  /// The bounds on epsilon; `upper` comes from the run's statement.
  double lower = 0.0, upper = 0.0;
  double confidence = 0.0;
  bool of_the_same_files = true;  ///< Whether the audit attacked the run's own plugins and program.
  std::string method;
  double canaries = 0.0, runs = 0.0, guesses = 0.0, correct = 0.0;
};

/// Reads audit.json in a run's directory. An audit belongs to the run if it was made for the same
/// manifest, epsilon and last lines of the ledgers, and the record has no problems. Another audit
/// is left out, with a note.
/// \param record  the run's record, after read_bindings(); its notes may grow.
/// \returns nothing if there is no statement, or no audit of this run.
/// \throws IoError if audit.json is malformed.
std::optional<AuditShown> read_audit(RunRecord& record);

/// Both bounds in words: "epsilon is at most 3.00 (proved), and at least 2.40 (audited, 99 %)".
std::string bracket_words(const AuditShown& audit);
/// The lower bound, rounded down: "2.40".
std::string lower_number(const AuditShown& audit);
/// The confidence: "99 %".
std::string confidence_words(const AuditShown& audit);

/// The audit as a paragraph of a statement.
std::string audit_paragraph(const AuditShown& audit);

/// A picture of both bounds, without scripts.
std::string audit_bar(const AuditShown& audit);

}  // namespace privgrad::report
