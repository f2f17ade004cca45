#include "privgrad/api/auditing.hpp"

#include "privgrad/error.hpp"
#include "privgrad/report/report.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::api {

core::AuditNeighbours neighbours_of(const std::string& text, const std::string& called) {
  if (text == "canary") return core::AuditNeighbours::canary;
  if (text == "rounding") return core::AuditNeighbours::rounding;
  if (text == "lattice") return core::AuditNeighbours::lattice;
  throw ConfigError(called + " is '" + text + "', allowed are canary, rounding and lattice");
}

core::RunAudit audit_directory(const core::RecordDirectory& directory, const Catalog& catalog,
                               const core::AuditOptions& options) {
  core::RunAudit made = core::audit_run(directory, catalog, options);
  core::write_atomically(directory.path() / "audit.json", made.record.dump(2) + "\n");
  if (directory.has("report.html")) report::write_report(directory.path());
  return made;
}

}  // namespace privgrad::api
