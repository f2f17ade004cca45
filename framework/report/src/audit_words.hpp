// Reads a run's audit.json, and describes and draws its lower bound for the page and the statement.
#pragma once

#include <optional>
#include <string>

#include "record.hpp"

namespace privgrad::report {

/// A lower bound on a run's epsilon, found by an attack, beside the proved upper bound.
struct AuditShown {
  double lower = 0.0, upper = 0.0;  ///< Upper: from the run's statement.
  double confidence = 0.0;
  bool of_the_same_files = true;  ///< Whether the audit had the run's plugins and program.
  std::string method;
  double canaries = 0.0, runs = 0.0, guesses = 0.0, correct = 0.0;
};

/// The audit.json of a run's directory, if it belongs to this run: the same manifest, the same last
/// lines and the same epsilon. If it belongs to another run, a note says that it is not shown.
/// \param record  with its bindings read (read_bindings()).
/// \throws IoError for a file that no audit writes.
std::optional<AuditShown> read_audit(RunRecord& record);

/// "epsilon is at most 3.00 (proved), and at least 2.40 (audited, 99 %)".
std::string bracket_words(const AuditShown& audit);
/// "2.40", rounded down.
std::string lower_number(const AuditShown& audit);
/// "99 %"
std::string confidence_words(const AuditShown& audit);

/// A paragraph of a statement.
std::string audit_paragraph(const AuditShown& audit);

/// A picture of both bounds, without a script.
std::string audit_bar(const AuditShown& audit);

}  // namespace privgrad::report
