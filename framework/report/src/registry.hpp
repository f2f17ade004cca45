// A run's statement as an entry of the public registry of differentially private deployments.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "audit_words.hpp"

namespace privgrad::report {

/// The entry in YAML, with the leaves of the registry's schema in their order. A leaf that neither
/// the statement nor the manifest's `deployment` determines is written as a comment that asks a
/// person for it.
///
/// Source: opendp/deployments-registry-data, its entries of September 2026.
/// \param file  the statement's file, for errors.
/// \throws ConfigError for a run without noise, or without a finite epsilon; IoError.
std::string registry_entry(const core::Statement& statement, const std::string& file,
                           const std::optional<AuditShown>& audit);

}  // namespace privgrad::report
