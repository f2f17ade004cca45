// What is refused before a source is asked for a row.
#pragma once

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

/// Refuses what is known to be refused from the manifest, parameters and headers, as far as the
/// source says it (DataSource::foreseen_info()): what is said, and with which exit code, is the same for rows that
/// could not be read at all.
/// \param data  whose rows come next: the manifest's, or a client's own.
/// \throws PrivacyError; ManifestError if a file is absent or its header broken.
void refuse_before_reading(const Manifest& manifest, const ComponentUse& data);

}  // namespace privgrad::core
