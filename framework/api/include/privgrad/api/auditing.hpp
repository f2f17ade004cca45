// Auditing a finished run in its directory, as `privgrad audit` does and as Python calls it.
#pragma once

#include <string>

#include "privgrad/catalog.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/studies/audit.hpp"
#include "privgrad/studies/run_audit.hpp"

namespace privgrad::api {

/// \param text  canary, rounding or lattice. \param called  its name in errors.
/// \throws ConfigError
core::AuditNeighbours neighbours_of(const std::string& text, const std::string& called);

/// Audits the run of a directory, leaves audit.json there, and makes the page again, which shows
/// it.
/// \throws as core::audit_run(), and IoError.
core::RunAudit audit_directory(const core::RecordDirectory& directory, const Catalog& catalog,
                               const core::AuditOptions& options);

}  // namespace privgrad::api
