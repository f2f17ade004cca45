// Audits a finished run in its directory, for `privgrad audit` and for Python.
#pragma once

#include <string>

#include "privgrad/catalog.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/studies/audit.hpp"
#include "privgrad/studies/run_audit.hpp"

namespace privgrad::api {

/// \param text  canary, rounding or lattice.
/// \param called  the argument's name in errors.
/// \throws ConfigError for another text.
core::AuditNeighbours neighbours_of(const std::string& text, const std::string& called);

/// Audits the run in `directory`, writes audit.json, and updates the page, which shows the audit.
/// \throws as core::audit_run(), and IoError.
core::RunAudit audit_directory(const core::RecordDirectory& directory, const Catalog& catalog,
                               const core::AuditOptions& options);

}  // namespace privgrad::api
